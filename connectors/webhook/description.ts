import { type ConnectorDescription, namesParty } from '@tributary/core';
import { secretNames } from '../secret-names.ts';
import { rotated } from './rotation.ts';
import { MAX_BATCH, settingsFaults, settingsSchema, withSecret } from './settings.ts';

export const description: ConnectorDescription = {
  type: 'webhook',
  title: 'Webhook',
  description: [
    'Sends each delivery as an HTTP POST of JSON, signed as [Standard Webhooks](https://www.standardwebhooks.com) says: any of its libraries verifies the headers `webhook-id`, `webhook-timestamp` and `webhook-signature`.',
    'The body is `{ "id", "type": "event", "event", "rule_id", "destination_id", "attempt" }`. With a `batch_size` above 1 it is `{ "type": "batch", "deliveries": [<such bodies>] }`, whose answer holds for all of them.',
    'A batch refused with an answer that may be the fault of some of its deliveries (400, 409, 413, 422 and every other 4xx but 401, 402, 403, 404, 405, 407, 410 and 415, which speak about the place; and 500, which a receiver answers that stumbles over one) is sent again at once in parts, halves first and single deliveries when time grows short, each in the form of a batch. Only what is refused alone is given up, or tried again after a 500; what is not reached within the 10 seconds is tried again. A receiver that answers 500 to a batch and to six parts of it in a row, and then to seven single deliveries from all over the batch, is asked no further. A destination that took some of a batch it refused meets those again, under the same `id`.',
    'A `secret` that is replaced goes on to sign for `rotation_hours` (24 by default): `webhook-signature` holds the signature of the new secret first and, after a space, that of each replaced one, of which a receiver takes any, retries too. `rotation_until` shows when that ends. `"previous_secrets": null`, or `"rotation_hours": 0`, ends it at once.',
    'The connection test sends `{ "id", "type": "test", "workspace_id", "destination_id" }`, signed in the same way, and takes any 2xx.',
    'A delivery may arrive more than once, always with the same `id`, in a replay too unless that was asked for new ids; `webhook-id` and `idempotency-key` repeat it (of a batch: an id made from the ids in it).',
    'The status line is the answer, and it must come within 10 seconds: interim answers (1xx) before it are passed over, and nothing behind it (long, malformed or repeated headers, a body that breaks off) takes it back. 2xx is delivered; 408, 425, 429, 5xx, a timeout and a broken connection are tried again, not before the `Retry-After` of a 429 or 503; a 410 pauses the destination, whose deliveries wait until it goes on; anything else is given up at once, redirects too: they are not followed. The first kilobyte of the answer is kept to be shown, without the secret and the values of `headers`.',
    'Private, loopback, link-local and other special addresses are refused, whatever name they hide behind, unless the operator opened their range (`TRIBUTARY_EGRESS_ALLOW`).',
  ].join('\n\n'),
  settingsSchema,
  secrets: secretNames(settingsSchema),
  exposing: namesParty('url'),
  maxBatch: MAX_BATCH,
  hasTest: true,
  generate: withSecret,
  rotation: { previous: 'previous_secrets', rotated },
  check: settingsFaults,
};
