package main

import (
	"os"
	"os/signal"
	"syscall"
)

// signals are those that ask withpg to end.
type signals struct {
	c chan os.Signal
}

func catchSignals() *signals {
	s := &signals{c: make(chan os.Signal, 8)}
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		// What our parent has us ignore (nohup does), we leave ignored: the
		// command ignores it too.
		if !signal.Ignored(sig) {
			signal.Notify(s.c, sig)
		}
	}
	return s
}

func (s *signals) release() { signal.Stop(s.c) }

// sentToGroup tells whether the command got the signal too: Ctrl-C and Ctrl-\
// go to every process in the foreground of the terminal. Passing them on would
// deliver them twice, which many programs take for a wish to die at once.
func sentToGroup(sig os.Signal) bool {
	return (sig == os.Interrupt || sig == syscall.SIGQUIT) && inForeground()
}

func number(sig os.Signal) int {
	n, _ := sig.(syscall.Signal)
	return int(n)
}
