// Bff-consumer is the anonymous discovery service.
package main

import (
	"os"

	"melmastoon.ghasi.io/bff/internal/consumer/consumerd"
)

func main() { os.Exit(consumerd.Main(os.Args[1:])) }
