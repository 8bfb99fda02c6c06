package txidem

// len counts the identities that somebody waits for.
func (ws *waits) len() int {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.of)
}

// waiting counts those who wait for the call that req identifies.
func (ws *waits) waiting(req Request) int {
	id, err := (&Store{policy: defaultPolicy()}).identify(req)
	if err != nil {
		return -1
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if found, ok := ws.of[id.ID]; ok {
		return found.waiting
	}
	return 0
}
