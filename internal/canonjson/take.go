package canonjson

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// TakeString takes a member off the top level of an object: an adapter's reserved argument, which neither the handler
// nor the fingerprint may see. It returns the member's string and the object without it, all other members byte for
// byte as they came. If there is no such member, rest is raw itself; a member that is null is taken off and counts as not
// found, for some clients send null for what they leave out. Names are compared after unescaping.
//
// The errors are ErrNotObject, ErrNotString and those of Sum that concern the whole text;
// nesting and the range of numbers are left to Sum.
func TakeString(raw []byte, name string) (value string, found bool, rest []byte, err error) {
	if len(raw) > MaxSize {
		return "", false, nil, fmt.Errorf("%w (%d bytes)", ErrTooLarge, len(raw))
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(raw))
	if kind := d.PeekKind(); kind != jsontext.KindBeginObject && kind != jsontext.KindInvalid {
		return "", false, nil, ErrNotObject
	}
	if _, err := d.ReadToken(); err != nil {
		return "", false, nil, classify(raw, err)
	}
	cut, quoted, err := findMember(d, raw, name)
	if err != nil {
		return "", false, nil, err
	}
	if quoted == nil {
		return "", false, raw, nil
	}
	rest = append(make([]byte, 0, len(raw)-(cut.hi-cut.lo)), raw[:cut.lo]...)
	rest = append(rest, raw[cut.hi:]...)
	switch quoted.Kind() {
	case jsontext.KindNull:
		return "", false, rest, nil
	case jsontext.KindString:
		text, err := jsontext.AppendUnquote(nil, quoted)
		if err != nil {
			return "", false, nil, ErrSyntax
		}
		return string(text), true, rest, nil
	default:
		return "", false, nil, under(ErrNotString, []byte(name))
	}
}

// findMember reads the rest of an object, to its end, so that a duplicate or an error behind the member is found too.
// It returns the member's value, nil if there is none, and the part of raw to cut out, one comma included.
func findMember(d *jsontext.Decoder, raw []byte, name string) (cut span, value jsontext.Value, err error) {
	for i := 0; ; i++ {
		before := int(d.InputOffset())
		if d.PeekKind() == jsontext.KindEndObject {
			break
		}
		member, err := d.ReadToken()
		if err != nil {
			return span{}, nil, classify(raw, err)
		}
		found := member.String() == name
		v, err := d.ReadValue()
		if err != nil {
			return span{}, nil, classify(raw, err)
		}
		if !found {
			continue
		}
		value, cut = bytes.Clone(v), span{before, int(d.InputOffset())}
		if i == 0 && d.PeekKind() == jsontext.KindString { // the first of several: the comma is behind it
			cut.hi += bytes.IndexByte(raw[cut.hi:], ',') + 1
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return span{}, nil, classify(raw, err)
	}
	if err := atEnd(d); err != nil {
		return span{}, nil, err
	}
	return cut, value, nil
}
