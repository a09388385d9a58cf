package stack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"
)

// clusterSlots is the number of hash slots of every Redis Cluster.
const clusterSlots = 16384

// RedisCluster is a Redis Cluster of masters without replicas: enough to see
// whether commands keep to one hash slot, too little to see a failover.
type RedisCluster struct {
	Nodes []*Redis
}

// StartRedisCluster starts a cluster of that many masters, three at least.
func StartRedisCluster(ctx context.Context, nodes int) (*RedisCluster, error) {
	if nodes < 3 {
		return nil, fmt.Errorf("start redis cluster: %d nodes, needs 3", nodes)
	}
	c := &RedisCluster{Nodes: make([]*Redis, nodes)}
	password := newPassword()
	g, gctx := errgroup.WithContext(ctx)
	for i := range c.Nodes {
		g.Go(func() (err error) {
			c.Nodes[i], err = StartRedis(gctx, RedisConfig{cluster: true, password: password})
			return err
		})
	}
	err := g.Wait()
	if err == nil {
		err = c.join(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("start redis cluster: %w", errors.Join(err, c.Close()))
	}
	return c, nil
}

// join shares out the slots, introduces the nodes to each other and waits until every one knows where
// every slot is. First they forget who has called them: their ports may be remembered by others' clusters.
func (c *RedisCluster) join(ctx context.Context) error {
	ctx, cancel := startContext(ctx, "redis cluster")
	defer cancel()
	clients := make([]rueidis.Client, len(c.Nodes))
	for i, node := range c.Nodes {
		client, err := node.single()
		if err != nil {
			return err
		}
		defer client.Close()
		clients[i] = client
	}
	host, port, err := net.SplitHostPort(c.Nodes[0].Addr())
	if err != nil {
		return err
	}
	for i, client := range clients {
		first, next := i*clusterSlots/len(clients), (i+1)*clusterSlots/len(clients)
		commands := [][]string{
			{"CLUSTER", "RESET", "HARD"},
			append([]string{"CLUSTER", "ADDSLOTS"}, numbers(first, next)...), // ADDSLOTSRANGE needs Redis 7
			{"CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i + 1)},
		}
		if i > 0 {
			commands = append(commands, []string{"CLUSTER", "MEET", host, port})
		}
		for _, args := range commands {
			if err := client.Do(ctx, client.B().Arbitrary(args...).Build()).Error(); err != nil {
				return fmt.Errorf("%s %s: %w", args[0], args[1], err)
			}
		}
	}
	for _, client := range clients {
		err := until(ctx, func() (bool, error) {
			info, err := client.Do(ctx, client.B().ClusterInfo().Build()).ToString()
			return strings.Contains(info, "cluster_state:ok") &&
				strings.Contains(info, fmt.Sprintf("cluster_slots_ok:%d", clusterSlots)) &&
				strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", len(clients))), err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// single talks to this node alone, cluster or not.
func (r *Redis) single() (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{r.Addr()}, Password: r.password,
		ForceSingleClient: true, DisableCache: true, Dialer: net.Dialer{Timeout: 5 * time.Second},
	})
}

func numbers(from, to int) []string {
	out := make([]string, 0, to-from)
	for n := from; n < to; n++ {
		out = append(out, strconv.Itoa(n))
	}
	return out
}

// URLs are the addresses of the nodes, one by one.
func (c *RedisCluster) URLs() []string {
	urls := make([]string, len(c.Nodes))
	for i, node := range c.Nodes {
		urls[i] = strings.TrimSuffix(node.URL(), "/0") // a cluster has no numbered databases
	}
	return urls
}

// URL is one address that names every node.
func (c *RedisCluster) URL() string {
	others := url.Values{}
	for _, node := range c.Nodes[1:] {
		others.Add("addr", node.Addr())
	}
	return c.URLs()[0] + "?" + others.Encode()
}

// Close stops the nodes and removes their directories.
func (c *RedisCluster) Close() error {
	var errs []error
	for _, node := range c.Nodes {
		if node != nil {
			errs = append(errs, node.Close())
		}
	}
	return errors.Join(errs...)
}
