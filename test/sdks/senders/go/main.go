// Sends with analytics-go: each round's calls, the same as from every SDK.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/segmentio/analytics-go/v3"
)

type outcome struct{ ended chan error }

func (o outcome) Success(analytics.Message) { o.ended <- nil }

func (o outcome) Failure(_ analytics.Message, err error) { o.ended <- err }

func main() {
	url, writeKey, name := os.Args[1], os.Args[2], os.Args[3]
	rounds, err := strconv.Atoi(os.Args[4])
	exitOn(err)
	ended := make(chan error, 4*rounds)
	client, err := analytics.NewWithConfig(writeKey, analytics.Config{
		Endpoint:   url,
		Interval:   200 * time.Millisecond,
		BatchSize:  7,
		Callback:   outcome{ended},
		// It tries ten times and no more, which have to be longer than a start on a busy machine takes.
		RetryAfter: func(attempt int) time.Duration { return time.Duration(attempt+1) * 2 * time.Second },
	})
	exitOn(err)
	user, device := name+"-user", name+"-device"
	context := &analytics.Context{App: analytics.AppInfo{Name: "Shop", Version: "1.2"}}
	integrations := analytics.Integrations{"All": true, "Elsewhere": false}
	timestamp := time.Date(2026, 1, 2, 3, 4, 5, 678000000, time.UTC)
	for round := 0; round < rounds; round++ {
		if round == rounds/2 {
			fmt.Println("half")
		}
		said := func(key string, value interface{}) map[string]interface{} {
			return map[string]interface{}{
				"round":  round,
				"text":   "Grüße 漢字 🙂",
				"nested": map[string]interface{}{"list": []interface{}{1, "two", true}, "price": 12.5},
				key:      value,
			}
		}
		track := said("round", round)
		exitOn(client.Enqueue(analytics.Track{
			UserId: user, AnonymousId: device, Event: "Order Completed", Properties: track,
			Context: context, Integrations: integrations, Timestamp: timestamp,
		}))
		exitOn(client.Enqueue(analytics.Identify{
			UserId: user, AnonymousId: device, Traits: said("plan", "pro"),
			Context: context, Integrations: integrations, Timestamp: timestamp,
		}))
		exitOn(client.Enqueue(analytics.Page{
			UserId: user, AnonymousId: device, Name: "Home", Properties: said("url", "https://shop.example/"),
			Context: context, Integrations: integrations, Timestamp: timestamp,
		}))
		exitOn(client.Enqueue(analytics.Group{
			UserId: user, AnonymousId: device, GroupId: "acme", Traits: said("employees", 17),
			Context: context, Integrations: integrations, Timestamp: timestamp,
		}))
		time.Sleep(20 * time.Millisecond)
	}
	// A closed client no longer retries, so calls made during the outage need time first.
	for left := 4 * rounds; left > 0; left-- {
		exitOn(<-ended)
	}
	exitOn(client.Close())
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
