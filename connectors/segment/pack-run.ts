import type { DeliveryResult } from '@tributary/core';
import type { PartResult } from '../client/client-connector.ts';
import { classifyResponse, excerptOf, type HttpResponse, mayConcernSome } from '../http/client.ts';
import type { ActionOutcome, EventOutcome, HttpAnswer, HttpSent, Progress, Unit } from './messages.ts';
import { maskedValue } from './preview.ts';
import { type Refusal, refusalIn } from './vendor-answers.ts';
import type { Called } from './vendor-results.ts';

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
