// Bff-backoffice is the hotel staff's service.
package main

import (
	"os"

	"melmastoon.ghasi.io/bff/internal/backoffice/backofficed"
)

func main() { os.Exit(backofficed.Main(os.Args[1:])) }
