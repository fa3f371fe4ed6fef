/** The part of a generated client in Go that is the same for every plan: the checks before a call. */
export const GO_RUNTIME = (sdk: string) => `import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"sort"
	"strings"
	"time"
	"unicode/utf8"

	analytics "${sdk}"
)

// TrackingPlan has one function for each contract. Each checks its values, and hands them to the SDK.
type TrackingPlan struct {
	client analytics.Client
}

// New makes a TrackingPlan of the client of an SDK.
func New(client analytics.Client) *TrackingPlan {
	return &TrackingPlan{client: client}
}

// Message is what a call says beside its values. It names a user, a device, or both.
type Message struct {
	UserID       string
	AnonymousID  string
	MessageID    string
	Context      *analytics.Context
	Integrations analytics.Integrations
	Timestamp    time.Time
}

// Ptr returns a pointer to a value, for fields that may be left out.
func Ptr[T any](value T) *T {
	return &value
}

// Error is returned for a call that does not match its contract. Nothing was sent.
type Error struct {
	Call   string
	Faults []string
}

func (err *Error) Error() string {
	return err.Call + ": " + strings.Join(err.Faults, "; ")
}

// rule is what is checked of a value before it is sent.
type rule struct {
	types  []string
	values []interface{}
	format string
	bounds map[string]float64
	fields map[string]field
	closed bool
	rest   *rule
	items  *rule
}

type field struct {
	required bool
	rule     *rule
}

// checked returns the values as JSON has them, or an error that names all faults.
func checked(call string, values interface{}, of *rule) (map[string]interface{}, error) {
	text, err := json.Marshal(values)
	if err != nil {
		return nil, &Error{call, []string{err.Error()}}
	}
	fields := map[string]interface{}{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil {
		return nil, &Error{call, []string{err.Error()}}
	}
	var faults []string
	of.check(fields, "", &faults)
	if len(faults) > 0 {
		return nil, &Error{call, faults}
	}
	return fields, nil
}

func typeOf(value interface{}) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []interface{}:
		return "array"
	case json.Number:
		number, _ := value.Float64()
		if number == float64(int64(number)) || number >= 1<<63 || number <= -1<<63 {
			return "integer"
		}
		return "number"
	default:
		return "object"
	}
}

func (of *rule) check(value interface{}, path string, faults *[]string) {
	if of == nil {
		return
	}
	fault := func(format string, args ...interface{}) {
		*faults = append(*faults, path+" "+fmt.Sprintf(format, args...))
	}
	kind := typeOf(value)
	if of.types != nil && !hasType(of.types, kind) {
		fault("must be %s, not %s", strings.Join(of.types, " or "), kind)
		return
	}
	if of.values != nil && !isOneOf(value, of.values) {
		fault("must be one of %v", of.values)
		return
	}
	switch value := value.(type) {
	case string:
		if of.format != "" && !hasFormat(value, of.format) {
			fault("must be a valid %s", of.format)
		}
		of.checkSize("Length", float64(utf8.RuneCountInString(value)), fault)
	case json.Number:
		number, _ := value.Float64()
		of.checkNumber(number, fault)
	case []interface{}:
		for index, item := range value {
			of.items.check(item, fmt.Sprintf("%s/%d", path, index), faults)
		}
		of.checkSize("Items", float64(len(value)), fault)
	case map[string]interface{}:
		of.checkFields(value, path, faults)
	}
}

func (of *rule) checkFields(value map[string]interface{}, path string, faults *[]string) {
	for name, declared := range of.fields {
		if _, isSet := value[name]; !isSet && declared.required {
			*faults = append(*faults, path+"/"+name+" is required")
		}
	}
	for name, member := range value {
		if declared, isDeclared := of.fields[name]; isDeclared {
			declared.rule.check(member, path+"/"+name, faults)
		} else if of.closed {
			*faults = append(*faults, path+"/"+name+" is not declared")
		} else {
			of.rest.check(member, path+"/"+name, faults)
		}
	}
	sort.Strings(*faults)
}

func (of *rule) checkSize(unit string, size float64, fault func(string, ...interface{})) {
	if limit, isSet := of.bounds["min"+unit]; isSet && size < limit {
		fault("must have min%s %v", unit, limit)
	}
	if limit, isSet := of.bounds["max"+unit]; isSet && size > limit {
		fault("must have max%s %v", unit, limit)
	}
}

func (of *rule) checkNumber(number float64, fault func(string, ...interface{})) {
	if limit, isSet := of.bounds["minimum"]; isSet && number < limit {
		fault("must be at least %v", limit)
	}
	if limit, isSet := of.bounds["exclusiveMinimum"]; isSet && number <= limit {
		fault("must be above %v", limit)
	}
	if limit, isSet := of.bounds["maximum"]; isSet && number > limit {
		fault("must be at most %v", limit)
	}
	if limit, isSet := of.bounds["exclusiveMaximum"]; isSet && number >= limit {
		fault("must be below %v", limit)
	}
}

func hasType(types []string, kind string) bool {
	for _, name := range types {
		if name == kind || (name == "number" && kind == "integer") {
			return true
		}
	}
	return false
}

func isOneOf(value interface{}, values []interface{}) bool {
	if number, isNumber := value.(json.Number); isNumber {
		value, _ = number.Float64()
	}
	switch value.(type) {
	case []interface{}, map[string]interface{}:
		return false
	}
	for _, known := range values {
		if value == known {
			return true
		}
	}
	return false
}

var formats = map[string]*regexp.Regexp{
	"date":  regexp.MustCompile("^\\\\d{4}-\\\\d{2}-\\\\d{2}$"),
	"email": regexp.MustCompile("^[^\\\\s@]+@[^\\\\s@]+$"),
	"uuid":  regexp.MustCompile("^(?i:urn:uuid:)?[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"),
	"uri":   regexp.MustCompile("^[A-Za-z][A-Za-z0-9+.-]*:\\\\S*$"),
	"url":   regexp.MustCompile("^(?i:https?|ftp)://\\\\S+$"),
	"date-time": regexp.MustCompile(
		"^\\\\d{4}-\\\\d{2}-\\\\d{2}[Tt ]\\\\d{2}:\\\\d{2}:\\\\d{2}(\\\\.\\\\d+)?([Zz]|[+-]\\\\d{2}(:?\\\\d{2})?)$"),
}

func hasFormat(value string, name string) bool {
	switch name {
	case "ipv4":
		address := net.ParseIP(value)
		return address != nil && strings.Contains(value, ".") && !strings.Contains(value, ":")
	case "ipv6":
		return net.ParseIP(value) != nil && strings.Contains(value, ":")
	}
	pattern, isKnown := formats[name]
	return !isKnown || pattern.MatchString(value)
}
`;
