import {
  type AudienceResult,
  type DeliveryResult,
  type FieldChoice,
  type FieldChoices,
  type HookResult,
  isObject,
  type Json,
  type JsonObject,
  objectIn,
  type PersonDeletion,
  type PersonIdentity,
  type PreviewedRequest,
  type VendorError,
  type VendorFailure,
} from '@tributary/core';
import type { PartResult } from '../client/client-connector.ts';
import { classifyResponse, excerptOf, type HttpResponse, mayConcernSome } from '../http/client.ts';
import type { ActionOutcome, EventOutcome, HttpAnswer, HttpSent, Progress, Unit } from './messages.ts';

/* What became of a job of the pack: its requests and the answers, the outcomes that the pack tells, and the verdict of each event. */

/** A request of an action: its answer, or why there is none. */
interface SentRequest {
  /** Numbers of the events that it carries. */
  readonly events: readonly number[];
  readonly sent: HttpSent;
  readonly isGrant?: true;
  answer?: VendorAnswer;
  isTokenRefused?: boolean;
  failure?: DeliveryResult;
}

interface VendorAnswer extends HttpResponse {
  /** Set where an answer of 2xx says that something was not stored. */
  readonly refusal?: Refusal | undefined;
  /** The places of the events in the request that were not stored, where it names them. */
  readonly places?: readonly number[] | undefined;
}

export function readAnswer(
  destination: string,
  { status, headers, body }: HttpAnswer,
  secrets: readonly string[],
): VendorAnswer {
  const bytes = Buffer.from(body, 'base64');
  const refusal = status < 500 ? refusalIn(destination, bytes) : undefined;
  return {
    status,
    retryAfter: headers.find(([name]) => name === 'retry-after')?.[1],
    excerpt: withoutTokens(excerptOf(bytes, secrets)),
    refusal: isOk(status) ? refusal : undefined,
    places: refusal?.places,
  };
}

/** Some actions get themselves a token first. */
export function withoutTokens(text: string): string {
  return text.replace(/("(?:access_?|refresh_?|id_?|auth_?)token"\s*:\s*")[^"]*/gi, '$1***');
}

function isOk(status: number): boolean {
  return status >= 200 && status < 300;
}

/** Its process told no outcome. */
export const LOST: DeliveryResult = { outcome: 'retry', reason: 'the process of the pack told no outcome' };
const UNWANTED: DeliveryResult = { outcome: 'unwanted', reason: 'not sent: no action takes it' };

/** The verdict of a unit. */
export interface UnitVerdict {
  /** Of the events that are not told apart. */
  readonly result: DeliveryResult;
  readonly mayBeSplit: boolean;
  /** By their places in the unit; undefined where an event is not told apart. */
  readonly each: readonly (DeliveryResult | undefined)[];
}

/** What is known of a job while it runs, and after it. */
export class PackRun {
  /** Why it did not end. */
  failure: DeliveryResult | undefined;
  readonly #events: number;
  readonly #secrets: readonly string[];
  #ofRefused: ((result: DeliveryResult) => DeliveryResult) | undefined;
  #units: readonly Unit[] | undefined;
  readonly #outcomes = new Map<number, ActionOutcome>();
  readonly #requests = new Map<number, SentRequest[]>();

  /** `secrets` are masked in what is shown of it. */
  constructor(events: number, secrets: readonly string[]) {
    this.#events = events;
    this.#secrets = secrets;
  }

  /** One that was not made. */
  static failed(failure: DeliveryResult): PackRun {
    const run = new PackRun(0, []);
    run.failure = failure;
    return run;
  }

  begin(): void {
    this.#units = undefined;
    this.#outcomes.clear();
    this.#requests.clear();
  }

  progress({ units, outcomes }: Progress): void {
    const isOurs = (at: number) => Number.isInteger(at) && at >= 0 && at < this.#events;
    if (units?.every(({ events }) => events.every(isOurs)) === true) this.#units = units;
    for (const outcome of outcomes) this.#outcomes.set(outcome.unit, outcome);
  }

  /** A request of the unit begins. */
  began(unit: number, about: Pick<SentRequest, 'events' | 'sent' | 'isGrant'>): SentRequest {
    const request: SentRequest = { ...about };
    const requests = this.#requests.get(unit) ?? [];
    requests.push(request);
    this.#requests.set(unit, requests);
    return request;
  }

  /** Whether the process was lost, or the time was over, before the first request. */
  get hasNotBegun(): boolean {
    return this.#events > 0 && this.failure !== undefined && this.#requests.size === 0;
  }

  get #all(): readonly SentRequest[] {
    return [...this.#requests.values()].flat();
  }

  /** Whether its only request was refused for the access token. */
  get isRefusedWhole(): boolean {
    const [first, ...more] = this.#all;
    return more.length === 0 && first?.isTokenRefused === true;
  }

  /** Whether the access token was refused: to a request, or by the action's word for an event of a batch. */
  get isTokenRefused(): boolean {
    return (
      this.#all.some((request) => request.isTokenRefused === true) ||
      [...this.#outcomes.values()].some(({ each = [] }) => each.some(saysTokenRefused))
    );
  }

  /** The run, with another result for what was refused for the access token. */
  withRefused(resultOf: (result: DeliveryResult) => DeliveryResult): this {
    this.#ofRefused = resultOf;
    return this;
  }

  get units(): readonly Unit[] {
    return this.#units ?? [];
  }

  /** The result of an event that no unit carries. */
  get ofNoUnit(): DeliveryResult {
    return this.#units === undefined ? (this.failure ?? LOST) : UNWANTED;
  }

  /** Of a connection test. */
  get test(): { readonly isEnded: boolean; readonly status: number | undefined } {
    const outcome = this.#outcomes.get(0);
    const requests = this.#requests.get(0) ?? [];
    const isRefused = requests.some(({ answer }) => answer?.refusal !== undefined);
    const isEnded = outcome !== undefined && outcome.error === undefined && !isRefused;
    return { isEnded, status: requests.at(-1)?.answer?.status };
  }

  /** Of a call beside deliveries. `now` is epoch ms. */
  called(now: number): Called {
    const last = this.#requests.get(0)?.at(-1);
    const output = maskedValue(this.#outcomes.get(0)?.output ?? null, this.#secrets);
    const { result } = this.verdictOf(0, now);
    return { result, output, refusal: refusalOf(last, now), last: last?.sent };
  }

  /** `now` is epoch ms. */
  verdictOf(number: number, now: number): UnitVerdict {
    const unit = this.#units?.[number];
    const outcome = this.#outcomes.get(number);
    if (unit === undefined || outcome === undefined)
      return { result: this.failure ?? LOST, mayBeSplit: false, each: [] };
    const requests = this.#requests.get(number) ?? [];
    const verdict = classifyUnit(unit, outcome, requests, this.#secrets, now);
    const ofRefused = this.#ofRefused;
    if (ofRefused === undefined) return verdict;
    const isRefused = requests.some((request) => request.isTokenRefused === true);
    const each = verdict.each.map((result, at) => {
      if (result === undefined || result.outcome === 'delivered' || 'local' in result) return result;
      return isRefused || saysTokenRefused(outcome.each?.[at] ?? null) ? ofRefused(result) : result;
    });
    return isRefused ? { result: ofRefused(verdict.result), mayBeSplit: false, each } : { ...verdict, each };
  }
}

function saysTokenRefused(said: EventOutcome | null): boolean {
  return said?.status === 401;
}

/** The verdict of a unit by what the action says of each event, where it does, else by the answers to its requests. */
export function classifyUnit(
  unit: Unit,
  { error, each = [] }: ActionOutcome,
  made: readonly SentRequest[],
  secrets: readonly string[],
  now: number,
): UnitVerdict {
  const { action, events } = unit;
  // A token that was granted says nothing of the events.
  const requests = made.filter(({ isGrant, answer }) => isGrant !== true || !isOk(answer?.status ?? 0));
  const common = classifyAction(action, error, requests, secrets, now);
  const last = requests.at(-1)?.answer;
  const isBelieved = isForEach(each, common.result, last);
  const refused = refusedEvents(requests);
  const toldOf = (event: number, said: EventOutcome | null): DeliveryResult | undefined => {
    if (said !== null && said.status === undefined) return refusedHere(action, said.message, secrets);
    if (said?.status !== undefined && isBelieved)
      return isOk(said.status)
        ? common.result.outcome === 'delivered'
          ? common.result
          : { outcome: 'delivered', status: said.status, recorded: true }
        : refusedThere(action, said.status, said.message);
    if (refused === undefined) return undefined;
    return refused.events.has(event) ? common.result : refused.stored;
  };
  return { ...common, each: events.map((event, at) => toldOf(event, each[at] ?? null)) };

  function refusedThere(name: string, status: number, message: string): DeliveryResult {
    const excerpt = excerptOf(Buffer.from(message), secrets);
    const answer = { status: Math.max(400, status), retryAfter: last?.retryAfter, excerpt };
    const reason = excerpt === '' ? `${name} answered ${status}` : `${name}: ${excerpt}`;
    return { ...asFailure(classifyResponse(answer, now)), status, reason };
  }
}

/**
 * Whether an action tells its events apart. Some say of each what holds for the answer as a whole, also of a refusal that one
 * event has caused; and some take an answer that they do not understand for a success.
 */
function isForEach(
  each: readonly (EventOutcome | null)[],
  common: DeliveryResult,
  last: VendorAnswer | undefined,
): boolean {
  const said = each.flatMap((one) => (one?.status === undefined ? [] : [{ ...one, status: one.status }]));
  const [first] = said;
  if (said.every(({ status }) => isOk(status))) return common.outcome === 'delivered';
  const isOne = said.every(({ status, message }) => status === first?.status && message === first.message);
  return !isOne || first?.status !== last?.status;
}

/** The events that an answer says were not stored, and the result of the others; undefined where it names none. */
function refusedEvents(requests: readonly SentRequest[]) {
  const [request, ...more] = requests.filter(({ sent }) => sent.method !== 'GET');
  const { answer } = request ?? {};
  const places = answer?.places;
  if (request === undefined || answer === undefined || places === undefined || more.length > 0)
    return undefined;
  const events = new Set(places.flatMap((place) => request.events[place] ?? []));
  return events.size === places.length ? { events, stored: delivered(answer) } : undefined;
}

function delivered({ status, excerpt }: VendorAnswer): DeliveryResult {
  return { outcome: 'delivered', status, ...(excerpt === '' ? {} : { response: excerpt }), recorded: true };
}

/** The result of a delivery: the worst of its units. */
export function worstOf(results: readonly DeliveryResult[]): DeliveryResult {
  const failed = results.filter(({ outcome }) => outcome === 'retry' || outcome === 'dead');
  const retried = failed.filter(({ outcome }) => outcome === 'retry');
  // A failure uses a retry step also beside a refusal for the rate, and the vendor's word goes before a refusal of ours.
  const worst =
    retried.find((result) => !('throttled' in result)) ??
    retried[0] ??
    failed.find((result) => !('local' in result)) ??
    failed[0];
  if (worst !== undefined) {
    if (!('throttled' in worst) || failed.length === results.length) return worst;
    // The actions that succeeded are repeated with the refused one: as rarely as after a failure.
    const { throttled: _, ...retry } = worst;
    return retry;
  }
  return results.findLast(({ outcome }) => outcome === 'delivered') ?? results[0] ?? UNWANTED;
}

function classifyAction(
  action: string,
  error: ActionOutcome['error'],
  requests: readonly SentRequest[],
  secrets: readonly string[],
  now: number,
): PartResult {
  if (error !== undefined) return classifyActionError(action, error, requests, secrets, now);
  const refused = requests.find(
    (request, at) =>
      request.answer?.refusal !== undefined &&
      !(request.isTokenRefused === true && isRepeated(request, requests.slice(at + 1))),
  )?.answer;
  if (refused?.refusal !== undefined) return classifyRefusal(action, refused, refused.refusal, now);
  const last = requests.at(-1);
  if (last === undefined)
    return {
      result: { outcome: 'unwanted', reason: `not sent: ${action} made no request of it` },
      mayBeSplit: false,
    };
  // The action ended well, but the vendor did not answer so: a lost write, or the last word.
  const lost = requests.find((request, at) => isLost(request, requests.slice(at + 1)));
  const swallowed = lost ?? (isOk(last.answer?.status ?? 0) ? undefined : last);
  if (swallowed?.failure !== undefined) return { result: swallowed.failure, mayBeSplit: false };
  if (swallowed?.answer !== undefined) return classifyAnswer(action, swallowed.answer, now);
  return { result: last.answer === undefined ? LOST : delivered(last.answer), mayBeSplit: false };
}

/** Whether a request was made again, with success. */
function isRepeated({ sent: { method, url } }: SentRequest, later: readonly SentRequest[]): boolean {
  return later.some(
    ({ sent, answer }) =>
      sent.method === method &&
      sent.url === url &&
      isOk(answer?.status ?? 0) &&
      answer?.refusal === undefined,
  );
}

/** Whether a write failed, and was not repeated with success. */
function isLost(request: SentRequest, later: readonly SentRequest[]): boolean {
  const { sent, answer, failure } = request;
  const { status = 0 } = answer ?? {};
  if (sent.method === 'GET' || (failure === undefined && status < 500 && status !== 429)) return false;
  return !isRepeated(request, later);
}

function classifyAnswer(action: string, answer: VendorAnswer, now: number): PartResult {
  const verdict = asFailure(classifyResponse(answer, now));
  return {
    result: { ...verdict, reason: `${action} ${verdict.reason}` },
    mayBeSplit: mayConcernSome(verdict),
  };
}

/** Why the last request of a call got nothing, where the pack reports an error of its own. */
function refusalOf(last: SentRequest | undefined, now: number): DeliveryResult | undefined {
  if (last?.answer === undefined) return last?.failure;
  return last.answer.status >= 300 ? classifyResponse(last.answer, now) : undefined;
}

/** An answer of 2xx whose body says that nothing was stored counts as the status in the body, else as one of 400. */
function classifyRefusal(
  action: string,
  { status, retryAfter, excerpt }: VendorAnswer,
  { says, code = 400 }: Refusal,
  now: number,
): PartResult {
  const verdict = asFailure(classifyResponse({ status: Math.max(400, code), retryAfter, excerpt }, now));
  return {
    result: { ...verdict, status, reason: `${action} answered ${status}, but stored nothing: ${says}` },
    mayBeSplit: mayConcernSome(verdict),
  };
}

type FailedResult = Extract<DeliveryResult, { outcome: 'retry' | 'dead' }>;

function asFailure(result: DeliveryResult): FailedResult {
  if (result.outcome === 'retry' || result.outcome === 'dead') return result;
  throw new Error('a refusal was classified as a success');
}

/** What the pack refuses is not sent, and would be refused again. */
function refusedHere(
  action: string,
  message: string,
  secrets: readonly string[],
  name?: string,
): DeliveryResult {
  const said = excerptOf(Buffer.from(message), secrets);
  return { outcome: 'dead', reason: `not sent: ${reasonOf(action, said, name)}`, local: true };
}

function reasonOf(action: string, said: string, name: string | undefined): string {
  const why = name === undefined ? '' : ` (${/^[A-Za-z]{1,60}$/.test(name) ? name : 'Error'})`;
  return said === '' ? `${action} failed${why}` : `${action}: ${said}${why}`;
}

function classifyActionError(
  action: string,
  { name, status, message }: NonNullable<ActionOutcome['error']>,
  requests: readonly SentRequest[],
  secrets: readonly string[],
  now: number,
): PartResult {
  const last = requests.at(-1);
  if (last?.failure !== undefined) return { result: last.failure, mayBeSplit: false };
  if (last?.answer !== undefined && last.answer.status >= 300)
    return classifyAnswer(action, last.answer, now);
  // The pack has its own timeout, which may be shorter than the deadline of the call.
  if (name === 'TimeoutError')
    return { result: { outcome: 'retry', reason: 'timed out' }, mayBeSplit: false };
  const reason = reasonOf(action, excerptOf(Buffer.from(message), secrets), name);
  if (last?.answer === undefined) {
    if (name === 'RetryableError')
      return { result: { outcome: 'retry', reason: `not sent: ${reason}` }, mayBeSplit: false };
    // Actions are deterministic: without an answer a retry would fail in the same way.
    return { result: refusedHere(action, message, secrets, name), mayBeSplit: true };
  }
  // The action read a refusal in an answer of 2xx.
  const verdict = asFailure(classifyResponse({ ...last.answer, status: Math.max(400, status ?? 0) }, now));
  return { result: { ...verdict, reason }, mayBeSplit: mayConcernSome(verdict) };
}

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

/* The results of calls to vendors. What the pack returns is foreign: each member is checked. */

/** What became of the requests of a call, and what the pack made of their answers. */
export interface Called {
  readonly result: DeliveryResult;
  readonly output: Json;
  /** The failure of the last request. The pack reports many as errors of its own words. */
  readonly refusal?: DeliveryResult | undefined;
  /** The last request. */
  readonly last?: HttpSent | undefined;
}

const MAX_CHOICES = 1_000;
/** Characters of a label and the like. */
const MAX_TEXT = 500;
/** Characters of the outputs of a hook as JSON: they become part of a mapping. */
const MAX_OUTPUTS = 4_096;

export function choicesOf({ result, output, refusal }: Called): FieldChoices {
  const { choices, nextPage, error } = objectIn(output);
  if (isObject(error)) return { choices: [], error: statedIn(error, refusal) };
  const failure = failureOf(result);
  if (failure !== undefined) return { choices: [], error: errorOf(failure) };
  return {
    choices: (Array.isArray(choices) ? choices : []).slice(0, MAX_CHOICES).flatMap(choiceOf),
    ...(typeof nextPage === 'string' && nextPage !== '' ? { next_page: nextPage } : {}),
  };
}

function choiceOf(choice: Json): readonly FieldChoice[] {
  const { value, label = value, description } = objectIn(choice);
  if (value === undefined || isObject(value) || Array.isArray(value)) return [];
  const about = typeof description === 'string' ? { description: textOf(description) } : {};
  return [{ value, label: textOf(label), ...about }];
}

function textOf(value: Json | undefined): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value ?? '');
  return text.slice(0, MAX_TEXT);
}

function statedIn({ message, code }: JsonObject, refusal: DeliveryResult | undefined): VendorError {
  const failure = refusal === undefined ? undefined : failureOf(refusal);
  const why = failure === undefined ? '' : ` (${errorOf(failure).message})`;
  return { message: `${textOf(message)}${why}`, code: textOf(code) };
}

function errorOf({ outcome, reason, status, response }: VendorFailure): VendorError {
  const code = status ?? (outcome === 'retry' ? 'unanswered' : 'not_sent');
  return { message: response === undefined ? reason : `${reason}: ${response}`, code: String(code) };
}

/** `unknown` where a request may have created something: a hook that sent none did nothing. */
export function hookResultOf({ result, output, refusal, last }: Called): HookResult {
  const { savedData, successMessage, error } = objectIn(output);
  if (isObject(error)) {
    const isKnown = refusal?.outcome !== 'retry';
    return { outcome: isKnown ? 'refused' : 'unknown', error: statedIn(error, refusal) };
  }
  const failure = failureOf(result);
  if (failure !== undefined)
    return {
      outcome: failure.outcome === 'retry' && last !== undefined ? 'unknown' : 'refused',
      error: errorOf(failure),
    };
  const outputs = objectIn(savedData);
  if (JSON.stringify(outputs).length > MAX_OUTPUTS)
    return { outcome: 'unknown', error: { message: 'the outputs are too long', code: 'too_long' } };
  const message = typeof successMessage === 'string' ? { message: textOf(successMessage) } : {};
  return { outcome: 'done', outputs, ...message };
}

/** A deletion that made no request deleted nothing. */
export function deletionOf({ result, last }: Called): PersonDeletion {
  if (result.outcome !== 'delivered') return failureOf(result) ?? NOT_SENT;
  const { status = 0, response } = result;
  const isSearch = last?.method === 'GET' || last?.url.endsWith('/search') === true;
  return {
    outcome: isSearch ? 'absent' : 'accepted',
    status,
    ...(response === undefined ? {} : { response }),
  };
}

const NOT_SENT = { outcome: 'refused', reason: 'not sent: the destination made no request of it' } as const;

export function audienceOf({ result, output }: Called): AudienceResult {
  const failure = failureOf(result);
  if (failure !== undefined) return failure;
  const { externalId } = objectIn(output);
  if ((typeof externalId !== 'string' && typeof externalId !== 'number') || externalId === '')
    return { outcome: 'refused', reason: 'the answer has no id of the audience' };
  return { outcome: 'found', external_id: String(externalId) };
}

/** Undefined where the requests succeeded, and where none was made. */
function failureOf(result: DeliveryResult): VendorFailure | undefined {
  if (result.outcome !== 'retry' && result.outcome !== 'dead') return undefined;
  const { reason, status, response } = result;
  const shown = {
    reason,
    ...(status === undefined ? {} : { status }),
    ...(response === undefined ? {} : { response }),
  };
  if (result.outcome === 'dead') return { outcome: 'refused', ...shown };
  return { outcome: 'retry', ...shown, ...(result.afterMs === undefined ? {} : { afterMs: result.afterMs }) };
}

/** Characters that lead nowhere else in a URL or in a text of another language, such as GraphQL. */
const PLAIN_ID = /^(?!\.{1,2}$)[\p{L}\p{N}_.@+:=|~-]+$/u;

/**
 * Whether a request to delete a person names them as one value: the pack puts ids into paths as they are, and ids of
 * events are the producer's, so that `../teams/7` would delete something else.
 */
export function isAboutPerson({ url, body }: HttpSent, { user_id, anonymous_id }: PersonIdentity): boolean {
  const sent = Buffer.from(body, 'base64').toString('utf8');
  return [user_id, anonymous_id].every(
    (id) =>
      id === undefined ||
      PLAIN_ID.test(id) ||
      (encodeURIComponent(id) !== id && `${url} ${sent}`.includes(encodeURIComponent(id))) ||
      sent.includes(JSON.stringify(id)),
  );
}

/** Characters of a body that are shown. */
const MAX_BODY = 64 * 1_024;
const MASK = '***';
/** Headers that hold credentials, also in forms that cannot be found by the text of a secret. */
const CREDENTIALS = /auth|key|token|secret|cookie|signature|password/i;

/** A text without secrets, also where they are encoded for a URL or in Base64. */
export function maskedText(text: string, secrets: readonly string[]): string {
  return secrets.flatMap(formsOf).reduce((rest, secret) => rest.replaceAll(secret, MASK), text);
}

function formsOf(secret: string): readonly string[] {
  const encoded = [
    secret,
    encodeURIComponent(secret),
    Buffer.from(secret).toString('base64').replace(/=+$/, ''),
  ];
  return [...new Set(encoded)];
}

export function maskedValue(value: Json, secrets: readonly string[]): Json {
  if (typeof value === 'string') return maskedText(value, secrets);
  if (Array.isArray(value)) return value.map((item) => maskedValue(item, secrets));
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, maskedValue(member, secrets)]),
  );
}

export function maskedRequest(
  { method, url, headers, body }: HttpSent,
  secrets: readonly string[],
): PreviewedRequest {
  const shown = headers.map(([name, value]) => [
    name,
    CREDENTIALS.test(name) ? value.replace(/^(\w+ )?.*$/s, `$1${MASK}`) : maskedText(value, secrets),
  ]);
  return {
    method,
    url: maskedText(url, secrets),
    headers: Object.fromEntries(shown),
    body: maskedText(Buffer.from(body, 'base64').toString('utf8'), secrets).slice(0, MAX_BODY),
  };
}
