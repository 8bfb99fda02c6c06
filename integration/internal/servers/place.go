package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// EnvServers may say which servers to use: containers or local. Empty is containers where there are any, else local.
const EnvServers = "TXONCE_SERVERS"

// majors are the versions for which images are made, the oldest first.
func majors() []int { return []int{15, 17} }

// askEngine bounds the question whether there is an engine.
const askEngine = 30 * time.Second

// Place is where servers can be started.
type Place struct {
	image string // of the container, "" for local binaries
	major int    // 0 for local binaries
	why   string // why it is not a container
}

// Container reports whether servers run in containers there.
func (p Place) Container() bool { return p.image != "" }

// String says what it is.
func (p Place) String() string {
	if p.Container() {
		return "container of " + p.image
	}
	return "local server binaries, for " + p.why
}

// Name is short: the major version, or local.
func (p Place) Name() string {
	if p.Container() {
		return fmt.Sprintf("%d", p.major)
	}
	return "local"
}

// AtHand returns the places at hand, the one of the oldest version first. There is always one, unless the environment asks for
// containers.
func AtHand(ctx context.Context) ([]Place, error) {
	want := os.Getenv(EnvServers)
	if !slices.Contains([]string{"", "containers", "local"}, want) {
		return nil, fmt.Errorf("servers: %s is %q; set it to containers or local, or unset it", EnvServers, want)
	}
	if want == "local" {
		return []Place{{why: EnvServers + " says so"}}, nil
	}
	places, err := containers(ctx)
	if want == "containers" && err == nil && len(places) < len(majors()) {
		err = fmt.Errorf("there are images of %v only: run make pg-image", places)
	}
	switch {
	case err == nil:
		return places, nil
	case want == "containers":
		return nil, fmt.Errorf("servers: %s is %q, but %w", EnvServers, want, err)
	}
	return []Place{{why: err.Error()}}, nil
}

// containers returns the places for which there are images. The error says what is missing.
func containers(ctx context.Context) ([]Place, error) {
	ctx, cancel := context.WithTimeout(ctx, askEngine)
	defer cancel()
	engine, err := client.New(client.FromEnv)
	if err != nil {
		return nil, fmt.Errorf("there is no container engine: %w", err)
	}
	defer func() { _ = engine.Close() }()
	if _, err := engine.Ping(ctx, client.PingOptions{}); err != nil {
		return nil, errors.New("there is no container engine")
	}
	var places []Place
	for _, major := range majors() {
		image := fmt.Sprintf("txonce/postgres:%d", major)
		switch _, err := engine.ImageInspect(ctx, image); {
		case err == nil:
			places = append(places, Place{image: image, major: major})
		case !errdefs.IsNotFound(err):
			return nil, fmt.Errorf("the container engine does not say whether it has %s: %w", image, err)
		}
	}
	if len(places) == 0 {
		return nil, errors.New("the container engine has no image: run make pg-image")
	}
	return places, nil
}
