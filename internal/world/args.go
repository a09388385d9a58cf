package world

import "strings"

// Flag is how a command is told to take what is not set from a running platform:
// alone, or with the platform's directory as --world=DIR.
const Flag = "--world"

// FromArgs takes the flag out of a command line and fills the environment from the
// platform that it means. Without the flag nothing happens.
func FromArgs(args []string) ([]string, error) {
	for i, arg := range args {
		if arg == "--" {
			break
		}
		dir, given := strings.CutPrefix(arg, Flag+"=")
		if arg != Flag && !given {
			continue
		}
		if arg == Flag {
			dir = ""
		}
		w, err := Find(dir)
		if err != nil {
			return nil, err
		}
		rest := append(append([]string(nil), args[:i]...), args[i+1:]...)
		return rest, w.Fill()
	}
	return args, nil
}
