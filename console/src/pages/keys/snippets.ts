import type { SnippetName } from './search.ts';

export interface Snippet {
  readonly name: SnippetName;
  readonly title: string;
  /** The command that installs the SDK. */
  readonly install?: string;
  readonly code: string;
  readonly note?: string;
}

interface Filling {
  /** The address that receives the events: `https://events.example.com`, without a trailing slash. */
  readonly url: string;
  readonly writeKey: string;
}

/** Stands for a key that can no longer be shown. */
export const PLACEHOLDER = '<write key>';

/**
 * Code for an app, complete and ready to run. `test/console/snippets.long.spec.ts` runs each snippet with its SDK against a
 * server and looks for the event.
 */
export function snippetsOf({ url, writeKey }: Filling): readonly Snippet[] {
  return [
    {
      name: 'curl',
      title: 'curl',
      code: `curl -s ${url}/v1/track -u '${writeKey}:' -H 'Content-Type: application/json' \\
  -d '{"userId": "ada", "event": "Test Event", "properties": {"total": 12.5}}'`,
      note: 'The answer is {"success":true} once the event is durable.',
    },
    {
      name: 'browser',
      title: 'Browser',
      install: 'npm install @segment/analytics-next',
      code: `<script src="/analytics-next/bundles/index.js"></script>
<script>
  const analytics = AnalyticsNext.AnalyticsBrowser.load({
    writeKey: '${writeKey}',
    cdnURL: '${url}',
  });
  analytics.track('Test Event', { total: 12.5 });
</script>`,
      note: 'analytics.js of Segment. Serve its folder dist/umd at /analytics-next with your pages, or bundle the package. It asks this server for its settings and sends where they say.',
    },
    {
      name: 'node',
      title: 'Node',
      install: 'npm install @segment/analytics-node',
      code: `import { Analytics } from '@segment/analytics-node';

const analytics = new Analytics({ writeKey: '${writeKey}', host: '${url}' });
analytics.track({ userId: 'ada', event: 'Test Event', properties: { total: 12.5 } });
await analytics.closeAndFlush();`,
    },
    {
      name: 'python',
      title: 'Python',
      install: 'pip install segment-analytics-python',
      code: `from segment import analytics

analytics.write_key = '${writeKey}'
analytics.host = '${url}'
analytics.track('ada', 'Test Event', {'total': 12.5})
analytics.flush()`,
    },
    {
      name: 'go',
      title: 'Go',
      install: 'go get github.com/segmentio/analytics-go/v3',
      code: `package main

import (
	"log"

	"github.com/segmentio/analytics-go/v3"
)

func main() {
	client, err := analytics.NewWithConfig("${writeKey}", analytics.Config{Endpoint: "${url}"})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close() // sends what is queued
	properties := analytics.NewProperties().Set("total", 12.5)
	err = client.Enqueue(analytics.Track{UserId: "ada", Event: "Test Event", Properties: properties})
	if err != nil {
		log.Print(err)
	}
}`,
    },
    {
      name: 'rudderstack',
      title: 'RudderStack Node',
      install: 'npm install @rudderstack/rudder-sdk-node',
      code: `import RudderAnalytics from '@rudderstack/rudder-sdk-node';

const analytics = new RudderAnalytics('${writeKey}', { dataPlaneUrl: '${url}' });
analytics.track({ userId: 'ada', event: 'Test Event', properties: { total: 12.5 } });
await analytics.flush();`,
      note: 'Other SDKs of RudderStack take the same address as dataPlaneUrl.',
    },
    {
      name: 'batch',
      title: 'HTTP batch',
      code: `curl -s ${url}/v1/batch -u '${writeKey}:' -H 'Content-Type: application/json' -d '{
  "batch": [
    {"type": "identify", "userId": "ada", "traits": {"plan": "pro"}},
    {"type": "track", "userId": "ada", "event": "Test Event", "properties": {"total": 12.5}}
  ]
}'`,
      note: 'Up to 2,500 events and 4 MiB a request, 32 KiB an event. Of a batch the good events are taken; "rejected" in the answer names the others. A messageId of your own makes it safe to send again.',
    },
  ];
}
