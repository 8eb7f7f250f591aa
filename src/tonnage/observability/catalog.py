"""The catalog of Tonnage's own metrics: name, type, labels and help of each, in one table.

A new metric is one entry here and the line that measures it. HAMi's metrics, which keep HAMi's names, are in
`cardmetrics`, `podmetrics` and `quotametrics`.
"""

from typing import NamedTuple

FAST = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Buckets for decisions."""
MEDIUM = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Buckets for requests and watch events."""
SLOW = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Buckets for writes and cycles."""

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"


class MetricSpec(NamedTuple):
    """One metric, apart from its name."""

    kind: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


def _counter(help: str, *labels: str) -> MetricSpec:
    return MetricSpec(COUNTER, help, labels)


def _gauge(help: str, *labels: str) -> MetricSpec:
    return MetricSpec(GAUGE, help, labels)


def _histogram(buckets: tuple[float, ...], help: str, *labels: str) -> MetricSpec:
    return MetricSpec(HISTOGRAM, help, labels, buckets)


METRICS: dict[str, MetricSpec] = {
    # Requests of kube-scheduler and the API server to the extender.
    "tonnage_request_duration_seconds": _histogram(
        MEDIUM, "Time from a request's head to the end of its answer.", "verb"
    ),
    "tonnage_filter_duration_seconds": _histogram(FAST, "Time to decide a filter request."),
    "tonnage_decisions_total": _counter("Answers to kube-scheduler.", "verb", "outcome"),
    "tonnage_requests_forwarded_total": _counter("Requests that the leading replica answered for this one."),
    # Decisions and reservations.
    "tonnage_unschedulable_reasons_total": _counter(
        "Pods that fit no node, once for each reason that some node gave.", "reason"
    ),
    "tonnage_plugin_failures_total": _counter("Calls that a scheduling plugin failed to answer.", "plugin"),
    "tonnage_reservations": _gauge("Places reserved for pods, by how far they have come.", "state"),
    "tonnage_reservation_oldest_age_seconds": _gauge("Age of the oldest reservation.", "state"),
    "tonnage_reservations_expired_total": _counter("Reservations given up because nobody bound the pod in time."),
    # Binds.
    "tonnage_bind_duration_seconds": _histogram(SLOW, "Time to bind a pod, waiting for its node included."),
    "tonnage_bind_wait_duration_seconds": _histogram(MEDIUM, "Time that binds wait for their node."),
    "tonnage_binds_in_flight": _gauge("Binds without an answer yet, those that wait for their node included."),
    "tonnage_binds_waiting": _gauge("Binds that wait because another pod is being handed its devices on the node."),
    "tonnage_bind_writes_queued": _gauge("Labels to write and outcomes to find out behind answered binds."),
    "tonnage_bind_conflicts_total": _counter(
        "Bindings with a conflict or an unknown outcome, by the result.", "outcome"
    ),
    "tonnage_kubelet_refusals_total": _counter("Bound pods that their kubelet did not admit, by its reason.", "reason"),
    "tonnage_node_locks_total": _counter("Node locks, by the result of the write.", "outcome"),
    "tonnage_nodes_device_plugin_silent": _gauge("Nodes whose device plugin has not answered a pod for 30 s."),
    "tonnage_device_plugin_failures_total": _counter("Pods whose device plugin could not hand out their devices."),
    "tonnage_handshakes_total": _counter("Handshake writes to device plugins, by the result.", "outcome"),
    "tonnage_overlap_evictions_total": _counter("Pods evicted because another pod holds their devices."),
    # Pods that wait.
    "tonnage_requeue_writes_total": _counter("Writes that make kube-scheduler try pending pods again.", "outcome"),
    "tonnage_pods_requeued_total": _counter("Pending pods that were requeued and then placed."),
    "tonnage_pods_unschedulable": _gauge("Pending pods that wait for a change before the next attempt."),
    "tonnage_pods_nominated": _gauge("Pods whose nominated place other pods still have to leave."),
    "tonnage_pods_held_for_group": _gauge("Pending pods held because a controller is about to make their PodGroup."),
    "tonnage_groups_late_total": _counter("Pods that were placed before the PodGroup that they belong to was made."),
    "tonnage_gangs_pending": _gauge("Gangs with pending pods that cannot start whole."),
    # The informer, and the cluster state that it keeps.
    "tonnage_informer_synced": _gauge("1 once every kind was listed."),
    "tonnage_informer_events_total": _counter("Watch events applied to the cluster state."),
    "tonnage_informer_watch_failing": _gauge("1 while the kind cannot be listed or watched.", "kind"),
    "tonnage_informer_lists_total": _counter("Full lists of the kind.", "kind"),
    "tonnage_informer_watch_errors_total": _counter("Watches that broke or were refused.", "kind"),
    "tonnage_informer_silence_seconds": _gauge(
        "Time since the last watch event of the kind, bookmarks included.", "kind"
    ),
    "tonnage_informer_delay_seconds": _histogram(MEDIUM, "Time from the answer to a Binding until the watch shows it."),
    "tonnage_informer_apply_duration_seconds": _histogram(
        MEDIUM, "Time from reading watch events until the cluster state has them.", "kind"
    ),
    "tonnage_informer_failures_total": _counter(
        "Changes at which the cluster state, a hook or a listener failed.", "kind", "stage"
    ),
    "tonnage_informer_unreadable_objects": _gauge("Objects that cannot be read."),
    "tonnage_task_failures_total": _counter("Unexpected errors in background tasks, which go on.", "task"),
    "tonnage_cluster_problems": _gauge("Problems with objects that are used all the same."),
    "tonnage_pods": _gauge("Pods in the cluster state.", "state"),
    "tonnage_nodes": _gauge("Nodes in the cluster state."),
    "tonnage_pods_ignored_device_claims": _gauge(
        "Bound pods whose annotations claim devices beyond their requests, or other ones than when they got their node."
    ),
    "tonnage_gpus_free": _gauge("Free GPUs, parts added up."),
    "tonnage_gpus_free_usable": _gauge("Free GPUs that a typical pod can use, on average over the typical pods."),
    # Writes to the API server.
    "tonnage_api_write_duration_seconds": _histogram(
        SLOW, "Time that the API server took for a write.", "verb", "resource", "outcome"
    ),
    "tonnage_events_total": _counter("Kubernetes Events, by the result of the write.", "outcome"),
    "tonnage_events_queued": _gauge("Events to be written."),
    "tonnage_conditions_queued": _gauge("Pod conditions to be written."),
    "tonnage_statuses_queued": _gauge("PodGroup statuses to be written."),
    # Cycles of the batch scheduler.
    "tonnage_cycle_duration_seconds": _histogram(SLOW, "Time that a scheduling cycle took."),
    "tonnage_action_duration_seconds": _histogram(SLOW, "Time that an action took in a cycle.", "action"),
    "tonnage_plugin_duration_seconds_total": _counter(
        "Time that a plugin took, by extension point.", "plugin", "point"
    ),
    "tonnage_schedule_attempts_total": _counter("Attempts to schedule a pod, by the result.", "outcome"),
    "tonnage_evictions_total": _counter("Victims, by action and the result of the eviction.", "action", "outcome"),
    "tonnage_queue_deserved": _gauge("Resources that a queue deserves.", "queue", "resource"),
    "tonnage_queue_fair_share": _gauge("Resources that a queue can count on now.", "queue", "resource"),
    "tonnage_queue_allocated": _gauge("Resources that the pods of a queue hold.", "queue", "resource"),
    "tonnage_queue_requested": _gauge("Resources that the pods of a queue hold and wait for.", "queue", "resource"),
    # The agent of a node.
    "tonnage_agent_cards": _gauge("Cards that are offered, by their health.", "state"),
    "tonnage_agent_cards_left_out": _gauge("1 for each card that is not offered.", "device_index", "why"),
    "tonnage_agent_cards_invented": _gauge("1 if the cards are invented, for trials."),
    "tonnage_agent_card_errors_total": _counter("Errors that a card has reported, by XID.", "device_uuid", "xid"),
    "tonnage_agent_registered": _gauge("1 while the kubelet reads the list of devices."),
    "tonnage_agent_answers_total": _counter("Answers to the kubelet about containers.", "outcome"),
    "tonnage_agent_notes_total": _counter("Notable things, each with a line in the log.", "event"),
    "tonnage_agent_containers_uncontrolled": _gauge("Containers that turn the limits of their devices off."),
    "tonnage_agent_containers_limited": _gauge("Containers whose limit of compute holds because they share a card."),
    "tonnage_agent_containers_blocked": _gauge("Containers whose launches wait for others of higher priority."),
    "tonnage_agent_regions": _gauge("Shared regions of containers, by what became of them at this scrape.", "state"),
    "tonnage_agent_folders_removed_total": _counter("Folders of containers that were removed after their pods' end."),
    # The process.
    "tonnage_leader": _gauge("1 while this replica leads."),
    "tonnage_cycle_failures_total": _counter("Cycles that failed, by the action that ran.", "action"),
    "tonnage_jobs_set_aside": _gauge("Jobs that cycles leave out because a cycle failed at them."),
    "tonnage_leader_acquisitions_total": _counter("Times that this replica came to lead."),
    "tonnage_config_reloads_total": _counter("New configurations, by the result.", "outcome"),
    "tonnage_config_last_reload_success_timestamp_seconds": _gauge("Time since which the configuration is in force."),
    "tonnage_build_info": _gauge("1, with the version of Tonnage.", "version"),
}
