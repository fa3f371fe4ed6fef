import { isObject, type Json, type JsonObject } from '@tributary/core';

/** The contents of a 2xx response that contradict its status: the vendor did not store the event. */
export interface Refusal {
  /** The part of the body that says so. */
  readonly says: string;
  /** The status in the body, where it has one. */
  readonly code?: number;
  /** Of a batch: the places of the events in the request that were not stored, where it names them; the others were. */
  readonly places?: readonly number[];
}

interface VendorAnswers {
  /** For documents: where the vendor says what the body of a 2xx means; undefined where nothing of that was found. */
  readonly document?: string;
  /** For documents: the bodies of a 2xx that say that nothing was stored. */
  readonly refusals?: string;
  readonly refusalIn?: (body: Json) => Refusal | undefined;
}

const ITERABLE_LISTS: VendorAnswers = {
  document: 'https://api.iterable.com/api/docs#lists_subscribe',
  refusals: '`code` other than `Success`; `failCount` above 0',
  refusalIn: ofObject((body) => otherText(body, 'code', 'Success') ?? someCounted(body, 'failCount')),
};

/** The status of a 2xx is in `code`: 0, or a number of five digits. */
const TIKTOK: VendorAnswers = {
  document: 'https://business-api.tiktok.com/portal/docs?id=1737172488964097',
  refusals:
    '`code` other than 0: 40100 is a refusal for the rate, 40105 one of the token, 50000 and above an outage',
  refusalIn: ofObject(({ code, message }) => {
    if (typeof code !== 'number' || code === 0) return undefined;
    const status = code === 40_100 ? 429 : code === 40_105 ? 401 : code >= 50_000 ? 500 : 400;
    return {
      says: `code ${code} ${typeof message === 'string' ? message.slice(0, 200) : ''}`.trim(),
      code: status,
    };
  }),
};

/**
 * How to read an answer of 2xx, by vendor. Every body that its document calls a refusal must be read as one: deliveries
 * would be shown as delivered, while nothing arrived. The reference has the day on which the documents were read.
 */
export const VENDOR_ANSWERS: Readonly<Record<string, VendorAnswers>> = {
  airship: {
    document: 'https://github.com/urbanairship/api-specs',
    refusals: '`ok` false',
    refusalIn: ofObject((body) => isFalse(body, 'ok')),
  },
  amplitude: {
    document: 'https://amplitude.com/docs/apis/analytics/http-v2#response',
    refusals: '`code` other than 200; `events_ingested` 0',
    refusalIn: ofObject((body) => otherCode(body, 'code', 200) ?? noneCounted(body, 'events_ingested')),
  },
  braze: {
    document: 'https://www.braze.com/docs/api/errors/',
    refusals: '`message` other than `success` and `queued`; `errors`',
    // `queued` is the answer while its processing is paused.
    refusalIn: ofObject((body) =>
      body.message === 'queued'
        ? undefined
        : (otherText(body, 'message', 'success') ?? listed(body, 'errors')),
    ),
  },
  'canny-functions': {},
  clevertap: {
    document: 'https://developer.clevertap.com/docs/api-errors',
    refusals: '`unprocessed`: the code 555 is an outage, others are refusals of the record',
    refusalIn: ofObject(({ unprocessed }) => {
      const [first] = Array.isArray(unprocessed) ? unprocessed : [];
      if (!isObject(first)) return undefined;
      const { code, error = '' } = first;
      const says = `unprocessed, code ${String(code)} ${String(error).slice(0, 200)}`.trim();
      return { says, code: code === 555 ? 500 : 400 };
    }),
  },
  customerio: {
    document: 'https://docs.customer.io/api/track/#tag/track_v2',
    refusals: '`errors`, of a 207',
    refusalIn: ofObject((body) => listed(body, 'errors', 'batch_index')),
  },
  drip: {},
  encharge: {},
  'facebook-conversions-api': {
    document: 'https://github.com/facebook/facebook-nodejs-business-sdk',
    refusals: '`events_received` 0',
    refusalIn: ofObject((body) => noneCounted(body, 'events_received')),
  },
  iterable: {
    document: 'https://api.iterable.com/api/docs#events_track',
    refusals: '`code` other than `Success`; `failCount` above 0',
    refusalIn: ofObject((body) => otherText(body, 'code', 'Success') ?? someCounted(body, 'failCount')),
  },
  'iterable-audiences': ITERABLE_LISTS,
  'iterable-lists': ITERABLE_LISTS,
  loops: {
    document: 'https://loops.so/docs/api-reference/intro',
    refusals: '`success` false',
    refusalIn: ofObject((body) => isFalse(body, 'success')),
  },
  'marketo-static-lists': {
    document: 'https://experienceleague.adobe.com/en/docs/marketo-developer/marketo/rest/error-codes',
    refusals: '`success` false; a record with `status` `skipped`',
    refusalIn: ofObject(
      (body) =>
        (body.success === false ? { says: `success false, ${codesIn(body.errors)}` } : undefined) ??
        skippedRecord(body.result),
    ),
  },
  mixpanel: {
    document:
      'https://docs.mixpanel.com/reference/import-events, https://docs.mixpanel.com/reference/track-event',
    refusals: '`0`; `code` other than 200; `status` 0; `failed_records`; `num_records_imported` 0',
    refusalIn: (body) =>
      body === 0
        ? { says: '0' }
        : ofObject(
            (members) =>
              listed(members, 'failed_records', 'index') ??
              otherCode(members, 'code', 200) ??
              noneCounted(members, 'status') ??
              noneCounted(members, 'num_records_imported'),
          )(body),
  },
  'ms-bing-ads-audiences': {
    document: 'https://learn.microsoft.com/en-us/advertising/guides/operation-error-codes',
    refusals: '`Errors`',
    refusalIn: ofObject((body) => listed(body, 'Errors')),
  },
  outfunnel: {},
  'pinterest-conversions': {
    document: 'https://developers.pinterest.com/docs/api/v5/events-create/',
    refusals: '`num_events_processed` 0',
    refusalIn: ofObject((body) => noneCounted(body, 'num_events_processed')),
  },
  pipedrive: {
    document: 'https://developers.pipedrive.com/docs/api/v1',
    refusals: '`success` false',
    refusalIn: ofObject((body) => isFalse(body, 'success')),
  },
  posthog: {
    // The source of the service: the documents do not name the member.
    document: 'https://github.com/PostHog/posthog/blob/master/rust/capture/src/api.rs',
    refusals: '`quota_limited`',
    refusalIn: ofObject((body) => listed(body, 'quota_limited')),
  },
  pushwoosh: {
    document: 'https://docs.pushwoosh.com/developer/api-reference/events',
    refusals: '`status_code` other than 200',
    refusalIn: ofObject((body) => otherCode(body, 'status_code', 200)),
  },
  schematic: {},
  'tiktok-app-events': TIKTOK,
  'tiktok-audiences': TIKTOK,
  'tiktok-conversions': TIKTOK,
  'tiktok-conversions-sandbox': TIKTOK,
  'tiktok-offline-conversions': TIKTOK,
  'tiktok-offline-conversions-sandbox': TIKTOK,
  usermaven: {},
};

/** The refusal in an answer of 2xx; undefined where the vendor stored the event, or does not say. */
export function refusalIn(destination: string, body: Uint8Array): Refusal | undefined {
  const read = VENDOR_ANSWERS[destination]?.refusalIn;
  if (read === undefined || body.length === 0) return undefined;
  try {
    return read(JSON.parse(new TextDecoder().decode(body)) as Json);
  } catch {
    return undefined;
  }
}

function ofObject(read: (body: JsonObject) => Refusal | undefined): (body: Json) => Refusal | undefined {
  return (body) => (isObject(body) ? read(body) : undefined);
}

function otherCode(body: JsonObject, name: string, right: number): Refusal | undefined {
  const code = body[name];
  return typeof code !== 'number' || code === right ? undefined : { says: `${name} ${code}`, code };
}

function otherText(body: JsonObject, name: string, right: string): Refusal | undefined {
  const text = body[name];
  return typeof text !== 'string' || text === right ? undefined : { says: `${name} ${JSON.stringify(text)}` };
}

function isFalse(body: JsonObject, name: string): Refusal | undefined {
  return body[name] === false ? { says: `${name} false` } : undefined;
}

function noneCounted(body: JsonObject, name: string): Refusal | undefined {
  return body[name] === 0 ? { says: `${name} 0` } : undefined;
}

function someCounted(body: JsonObject, name: string): Refusal | undefined {
  const count = body[name];
  return typeof count === 'number' && count > 0 ? { says: `${name} ${count}` } : undefined;
}

/** `place`: the member of an item that is the place of its event. */
function listed(body: JsonObject, name: string, place?: string): Refusal | undefined {
  const list = body[name];
  if (!Array.isArray(list) || list.length === 0) return undefined;
  const found = list.map((item) => (isObject(item) && place !== undefined ? item[place] : undefined));
  const places = found.filter((at) => typeof at === 'number');
  return { says: name, ...(places.length === found.length ? { places: [...new Set(places)] } : {}) };
}

/** The codes in a list of errors, as text. */
function codesIn(errors: Json | undefined): string {
  const list = Array.isArray(errors) ? errors : [];
  return list.map((error) => (isObject(error) ? String(error.code) : '')).join(', ');
}

function skippedRecord(result: Json | undefined): Refusal | undefined {
  const records = Array.isArray(result) ? result : [];
  const skipped = records.find((record) => isObject(record) && record.status === 'skipped');
  return isObject(skipped) ? { says: `status skipped, ${codesIn(skipped.reasons)}` } : undefined;
}
