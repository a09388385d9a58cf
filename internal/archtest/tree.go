package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Tree is every Go package of one module, keyed by its directory relative to
// the module's root ("." for the root itself): the Go files of the directory,
// whatever their package clauses and build constraints say. A breach behind a
// build tag is still a breach.
type Tree map[string][]*File

// File is what the rule needs to know of one source file.
type File struct {
	Path    string // relative to the module's root
	Test    bool   // name ends in _test.go
	Imports []Use  // imported paths
	Clock   []Use  // mentions of functions that read or wait on the clock
	Words   []Use  // identifiers and literal strings, imports aside
	Types   int    // exported types
}

// Use is a name and the line it stands on.
type Use struct {
	Name string
	Line int
}

func (f *File) at(u Use) string { return fmt.Sprintf("%s:%d", f.Path, u.Line) }

// clock lists the functions of package time that make a result depend on when
// it is computed. A pure function takes now as a parameter.
func clock() []string {
	return []string{"Now", "Since", "Until", "After", "AfterFunc", "NewTicker", "NewTimer", "Sleep", "Tick"}
}

// Load parses every Go file below the root of fsys. It passes over what the go
// command passes over (testdata, names with a leading dot or underscore,
// nested modules) and over node_modules.
func Load(fsys fs.FS) (Tree, error) {
	tree := Tree{}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if passOver(fsys, name) {
				return fs.SkipDir
			}
			return nil
		}
		base := path.Base(name)
		if path.Ext(base) != ".go" || base[0] == '.' || base[0] == '_' {
			return nil
		}
		file, err := parse(fsys, name)
		if err == nil {
			tree[path.Dir(name)] = append(tree[path.Dir(name)], file)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("load sources: %w", err)
	}
	return tree, nil
}

func passOver(fsys fs.FS, dir string) bool {
	if dir == "." {
		return false
	}
	base := path.Base(dir)
	if base[0] == '.' || base[0] == '_' || base == "testdata" || base == "node_modules" {
		return true
	}
	_, err := fs.Stat(fsys, path.Join(dir, "go.mod"))
	return err == nil
}

func parse(fsys fs.FS, name string) (*File, error) {
	src, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	file := &File{Path: name, Test: strings.HasSuffix(name, "_test.go")}
	use := func(name string, n ast.Node) Use { return Use{Name: name, Line: fset.Position(n.Pos()).Line} }

	timeName := ""
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: import %s: %w", name, spec.Path.Value, err)
		}
		file.Imports = append(file.Imports, use(imported, spec))
		if imported != "time" {
			continue
		}
		timeName = "time"
		if spec.Name != nil {
			timeName = spec.Name.Name
		}
		if timeName == "." { // hides the calls from the search below
			file.Clock = append(file.Clock, use("import . \"time\"", spec))
		}
	}

	for _, d := range parsed.Decls {
		if g, ok := d.(*ast.GenDecl); ok {
			for _, spec := range g.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok && t.Name.IsExported() {
					file.Types++
				}
			}
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == timeName && slices.Contains(clock(), n.Sel.Name) {
				file.Clock = append(file.Clock, use("time."+n.Sel.Name, n))
			}
		case *ast.Ident:
			file.Words = append(file.Words, use(n.Name, n))
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				file.Words = append(file.Words, use(n.Value, n))
			}
		}
		return true
	})
	return file, nil
}
