// helm, which installs the chart in the tests and renders the plain manifests.
package main

import (
	"errors"
	"os"

	helmcmd "helm.sh/helm/v4/pkg/cmd"
	"helm.sh/helm/v4/pkg/kube"
)

func main() {
	kube.ManagedFieldsManager = "helm"
	command, err := helmcmd.NewRootCmd(os.Stdout, os.Args[1:], helmcmd.SetupLogging)
	if err == nil {
		err = command.Execute()
	}
	var failed helmcmd.CommandError
	if errors.As(err, &failed) {
		os.Exit(failed.ExitCode)
	}
	if err != nil {
		os.Exit(1)
	}
}
