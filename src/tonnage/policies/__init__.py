"""Admission policies: ValidatingAdmissionPolicies that keep tenants off what schedulers and device plugins write."""
