package backofficelake

import (
	"fmt"
	"strings"

	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
)

// source is how an audited table t is read in a form: its columns, each as an expression whose binary representation is the value of its
// kind, and what they are read from.
func source(t *audit.Table, form audit.Form) (columns, from string) {
	var all, texts []string
	for _, c := range t.Columns {
		name := "t." + c.Name
		switch {
		case c.Form != 0 && c.Form != form:
			name = "NULL"
		case c.LengthOf != "":
			name = "char_length(t." + c.LengthOf + ")::bigint"
		case c.DigestOf != "":
			name = "encode(sha256(convert_to(t." + c.DigestOf + ", 'UTF8')), 'hex')"
		case c.JSON && form == audit.AuditWhole:
			name = "to_jsonb(" + name + ")::text"
		case c.JSON:
			texts = append(texts, "to_jsonb("+name+")::text AS "+c.Name)
			name = weighed("j." + c.Name)
		case c.Kind == audit.AuditInt:
			name += "::bigint"
		case c.Kind == audit.AuditText && form != audit.AuditWhole:
			name = weighed(name)
		}
		all = append(all, name)
	}
	from = schema + t.Name + " t"
	if len(texts) > 0 { // each is written out once, although it is named more often
		from += " CROSS JOIN LATERAL (SELECT " + strings.Join(texts, ", ") + " OFFSET 0) j"
	}
	return strings.Join(all, ", "), from
}

// weighed is a text, or if it is heavy its digest: what does not weigh much here can weigh a lot as text, and neither the process nor the
// lake should carry it. The digest is spelled as no jsonb is, and a text that is spelled like one is replaced by its digest, too.
func weighed(text string) string {
	const digest = `{"sha256":"`
	return fmt.Sprintf(`CASE WHEN octet_length(%[1]s) > %[2]d OR starts_with(%[1]s, '%[3]s')
		THEN '%[3]s' || encode(sha256(convert_to(%[1]s, 'UTF8')), 'hex') || '","bytes":' || octet_length(%[1]s) || '}' ELSE %[1]s END`,
		text, audit.AuditWeight, digest)
}
