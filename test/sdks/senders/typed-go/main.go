// Sends with the clients that `tributary codegen` wrote for both SDKs: right calls, then wrong ones, whose errors it prints.
package main

import (
	"fmt"
	"os"
	"time"

	rudder "github.com/rudderlabs/analytics-go/v4"
	segment "github.com/segmentio/analytics-go/v3"
	"sender/rudderstackplan"
	"sender/segmentplan"
)

var placed = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func main() {
	url, writeKey := os.Args[1], os.Args[2]
	sendWithSegment(url, writeKey)
	sendWithRudderStack(url, writeKey)
}

func sendWithSegment(url, writeKey string) {
	client, err := segment.NewWithConfig(writeKey, segment.Config{Endpoint: url, Interval: 100 * time.Millisecond})
	exitOn(err)
	plan := segmentplan.New(client)
	message := segmentplan.Message{UserID: "go-segment"}
	order := segmentplan.TrackOrderPlaced{
		OrderId:  segmentplan.Ptr("o-1"),
		Total:    segmentplan.Ptr(12.5),
		Currency: segmentplan.Ptr(segmentplan.TrackOrderPlacedCurrencyEUR),
		PlacedAt: &placed,
		Address:  &segmentplan.TrackOrderPlacedAddress{City: segmentplan.Ptr("Köln")},
		Lines:    []segmentplan.TrackOrderPlacedLinesItem{{Sku: segmentplan.Ptr("s"), Count: segmentplan.Ptr(int64(2))}},
	}
	exitOn(plan.TrackOrderPlaced(message, order))
	exitOn(plan.PageHome(message, segmentplan.PageHome{Url: segmentplan.Ptr("https://shop.example/")}))
	exitOn(plan.Identify(message, segmentplan.Identify{Plan: segmentplan.Ptr(segmentplan.IdentifyPlanPro)}))
	exitOn(plan.Group(message, "acme", segmentplan.Group{Employees: segmentplan.Ptr(int64(17))}))
	fmt.Printf("segment: %v\n", plan.TrackOrderPlaced(message, segmentplan.TrackOrderPlaced{}))
	order.OrderId = segmentplan.Ptr("")
	order.Currency = segmentplan.Ptr(segmentplan.TrackOrderPlacedCurrency("GBP"))
	order.Address = &segmentplan.TrackOrderPlacedAddress{}
	fmt.Printf("segment: %v\n", plan.TrackOrderPlaced(message, order))
	exitOn(client.Close())
}

func sendWithRudderStack(url, writeKey string) {
	client, err := rudder.NewWithConfig(writeKey, rudder.Config{DataPlaneUrl: url, Interval: 100 * time.Millisecond})
	exitOn(err)
	plan := rudderstackplan.New(client)
	message := rudderstackplan.Message{UserID: "go-rudderstack"}
	order := rudderstackplan.TrackOrderPlaced{
		OrderId:  rudderstackplan.Ptr("o-1"),
		Total:    rudderstackplan.Ptr(12.5),
		Currency: rudderstackplan.Ptr(rudderstackplan.TrackOrderPlacedCurrencyEUR),
		PlacedAt: &placed,
		Address:  &rudderstackplan.TrackOrderPlacedAddress{City: rudderstackplan.Ptr("Köln")},
		Lines:    []rudderstackplan.TrackOrderPlacedLinesItem{{Sku: rudderstackplan.Ptr("s"), Count: rudderstackplan.Ptr(int64(2))}},
	}
	exitOn(plan.TrackOrderPlaced(message, order))
	exitOn(plan.PageHome(message, rudderstackplan.PageHome{Url: rudderstackplan.Ptr("https://shop.example/")}))
	exitOn(plan.Identify(message, rudderstackplan.Identify{Plan: rudderstackplan.Ptr(rudderstackplan.IdentifyPlanPro)}))
	exitOn(plan.Group(message, "acme", rudderstackplan.Group{Employees: rudderstackplan.Ptr(int64(17))}))
	fmt.Printf("rudderstack: %v\n", plan.TrackOrderPlaced(message, rudderstackplan.TrackOrderPlaced{}))
	order.OrderId = rudderstackplan.Ptr("")
	order.Currency = rudderstackplan.Ptr(rudderstackplan.TrackOrderPlacedCurrency("GBP"))
	order.Address = &rudderstackplan.TrackOrderPlacedAddress{}
	fmt.Printf("rudderstack: %v\n", plan.TrackOrderPlaced(message, order))
	exitOn(client.Close())
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
