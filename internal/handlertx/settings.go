package handlertx

import (
	"strconv"
	"time"
)

// The settings that free what a client holds that vanished in the middle of a statement (a closed connection is looked for each
// second), without a word (keepalives), or without reading what it asked for (R20). A socket's settings cost microseconds and
// mean nothing on a Unix socket; a server that is not on Linux may refuse them. Which of the two it is, the server says: a
// client that sees a Unix socket may talk to a pooler that talks TCP (R17).
//
// They are SQL expressions for a select list, local to the transaction, and take $3 and $4 from [SettingArgs].
// idle_in_transaction_session_timeout is not among them.
const (
	// SettingsUnknown is for a server of which it is not known whether it is on Linux.
	SettingsUnknown = `case when ` + IsLinux + ` then ` + SettingsLinux + ` end`
	// SettingsLinux is for a server on Linux.
	SettingsLinux = `case when inet_client_addr() is null then ` + settingsLocal + ` else ` + settingsTCP + ` end`
	// SettingsOther is for any other server: nothing, but its parameter has a type.
	SettingsOther = `$4::text`
	// IsLinux asks the server.
	IsLinux = `version() like '%-linux-%'`

	settingsLocal = `set_config('client_connection_check_interval', '1000', true)`
	settingsTCP   = settingsLocal + `
    || set_config('tcp_user_timeout', $3::text, true)
    || set_config('tcp_keepalives_idle', $4::text, true)
    || set_config('tcp_keepalives_interval', $4::text, true)
    || set_config('tcp_keepalives_count', '2', true)`
)

// SettingArgs are the values of $3, in milliseconds, and $4, in seconds, for a client that may be silent for as long as idle.
func SettingArgs(idle time.Duration) (ms, probe string) {
	ms = strconv.FormatInt(idle.Milliseconds(), 10)
	return ms, strconv.FormatInt(max(1, int64(idle.Seconds()/3)), 10) // two probes are missed
}
