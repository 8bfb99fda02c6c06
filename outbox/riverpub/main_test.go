package riverpub_test

import (
	"testing"

	"github.com/txonce/txonce/internal/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }
