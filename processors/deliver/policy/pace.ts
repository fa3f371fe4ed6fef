/**
 * The pace of requests to one destination, learned from its responses and kept by each process for itself. A refusal for
 * the rate (429 and the like) lowers it, accepted requests raise it again: additive increase, multiplicative decrease. All
 * times are ms of a monotonic clock.
 *
 * Refused requests stay rare: one request at a time follows a refusal until one is accepted, and then the pace stays below
 * the refused one for a while. A destination that accepts clearly more than before has become faster: its pace doubles
 * each second.
 *
 * A single refusal among many accepted requests is about its delivery: that alone waits, and the pace hardly changes.
 */
export interface Pace {
  /** Requests that may begin in a second; infinite until the destination refuses one for its rate. */
  readonly perSecond: number;
  /** The refused pace; infinite while it is not known. */
  readonly ceiling: number;
  /** The pace is not raised before this time, nor before so many more requests were accepted. */
  readonly steadyUntil: number;
  readonly steadyFor: number;
  /** When the next request would begin if they were evenly spaced. */
  readonly nextAt: number;
  /** No request begins before: the destination asked for that. */
  readonly heldUntil: number;
  /** Refusals in a row. */
  readonly refusals: number;
  /** The last refusal: those of requests that began before belong to it. */
  readonly refusedAt: number;
  /** Share of refused ones among the latest requests. */
  readonly refusedShare: number;
  /** Whether a refusal that left the pace as it is was the last result. */
  readonly isOneRefused: boolean;
  /** Accepted requests since `countedFrom`, a second at most, and in the second before. */
  readonly accepted: number;
  readonly acceptedBefore: number;
  readonly countedFrom: number;
  /** Requests at a time at `rampFrom`; their number doubles each second. */
  readonly ramp: number;
  readonly rampFrom: number;
}

/** Requests at a time of a destination that was idle, so that few are refused before its limit is known. */
const RAMP_OF_IDLE = 4;
/** Of one that was down, so that its backlog does not bring it down again. */
const RAMP_OF_RECOVERED = 1;
export const DOUBLED_AFTER_MS = 1_000;

/** Requests may begin this much earlier than evenly spaced: a second has at most a tenth more than its limit, or one. */
const BURST_MS = 100;

/** A destination that asks for a longer wait gets a request again after this. */
export const MAX_RETRY_AFTER_MS = 3_600_000;
/** Wait after a refusal without `Retry-After`, and after a second one in a row; doubled by each further one. */
export const BACKOFF_MS = 1_000;
const MAX_BACKOFF_MS = 60_000;

/**
 * How far the pace is lowered below the refused one: by a request a second, within these parts of it. By more where the
 * last refusal was as short ago, or the limit may be far below.
 */
const LOWERED_BY_AT_LEAST = 0.05;
const LOWERED_BY_AT_MOST = 0.1;
const FAR_BELOW = 0.85;
const AGAIN_MS = 4_000;
const MIN_PER_SECOND = 0.1;
/** The first pace, where the destination accepted fewer before it refused one. */
const FIRST_PER_SECOND = 1;
/** So many accepted requests in a second show the limit of a destination; fewer may be a burst that it allows. */
const TELLING = 10;

/** How long the pace stays below a refused one: ms, times of the wait that the refusal cost, and accepted requests. */
const STEADY_MS = 20_000;
const STEADY_WAITS = 10;
const STEADY_REQUESTS = 30;
/** Requests a second that an accepted request adds: a twentieth a second, or a hundredth a request where these are few. */
const RAISED_BY = 0.05;
const RAISED_BY_PART = 0.01;
/** Refusals are about single deliveries below this share of about so many requests. */
const SHARE_OF_REQUESTS = 200;
/** How far the pace is lowered by each of them: several processes share a limit, and each sees few refusals. */
const LOWERED_BY_ONE = 0.01;
const SMALL_SHARE = 0.04;
/** Above this multiple of the refused pace the limit counts as gone. */
const BEYOND_CEILING = 1.5;

/** The pace of a destination that was idle for long, or had no deliveries yet. */
export function idlePace(now: number): Pace {
  return {
    perSecond: Number.POSITIVE_INFINITY,
    ceiling: Number.POSITIVE_INFINITY,
    steadyUntil: now,
    steadyFor: 0,
    nextAt: now,
    heldUntil: now,
    refusals: 0,
    refusedAt: Number.NEGATIVE_INFINITY,
    refusedShare: SMALL_SHARE,
    isOneRefused: false,
    accepted: 0,
    acceptedBefore: 0,
    countedFrom: now,
    ramp: RAMP_OF_IDLE,
    rampFrom: now,
  };
}

/** Requests that may begin in a second; undefined: any number. `limit`: the one that the destination is configured with. */
export function requestsPerSecond({ perSecond }: Pace, limit: number | undefined): number | undefined {
  return Number.isFinite(perSecond) ? Math.min(perSecond, limit ?? perSecond) : limit;
}

/** Wait of the next request, ms. */
export function paceWaitMs(pace: Pace, limit: number | undefined, now: number): number {
  const evenly = requestsPerSecond(pace, limit) === undefined ? 0 : pace.nextAt - BURST_MS - now;
  return Math.max(0, evenly, pace.heldUntil - now);
}

/** Requests at a time, of `max` at most. */
export function pacedConcurrency({ refusals, ramp, rampFrom }: Pace, max: number, now: number): number {
  if (refusals > 0) return 1;
  const doublings = Math.min((now - rampFrom) / DOUBLED_AFTER_MS, 30);
  return Math.min(max, Math.max(1, Math.floor(ramp * 2 ** doublings)));
}

/** Whether a request that begins now uses the pace in full, so that its acceptance shows that the destination takes it. */
export function isAtPace({ nextAt }: Pace, now: number): boolean {
  return now <= nextAt;
}

export function afterBegin(pace: Pace, limit: number | undefined, now: number): Pace {
  const perSecond = requestsPerSecond(pace, limit);
  if (perSecond === undefined) return pace;
  return { ...pace, nextAt: Math.max(pace.nextAt, now) + 1_000 / perSecond };
}

/** The destination accepted a request. */
export function afterAccepted(pace: Pace, atPace: boolean, now: number): Pace {
  const { accepted, ...counts } = acceptedCounts(pace, now);
  const refusedShare = pace.refusedShare * (1 - 1 / SHARE_OF_REQUESTS);
  const next = {
    ...pace,
    ...counts,
    accepted: accepted + 1,
    refusals: 0,
    refusedShare,
    isOneRefused: false,
  };
  const { perSecond, ceiling, steadyUntil, steadyFor } = pace;
  if (!Number.isFinite(perSecond)) return next;
  if (now < steadyUntil || steadyFor > 0) return { ...next, steadyFor: steadyFor - 1 };
  if (!atPace) return next;
  const isLimitKnown = perSecond <= ceiling * BEYOND_CEILING && Number.isFinite(ceiling);
  return isLimitKnown
    ? { ...next, perSecond: perSecond + Math.min(RAISED_BY, RAISED_BY_PART * perSecond) }
    : { ...next, perSecond: perSecond + 1, ceiling: Number.POSITIVE_INFINITY };
}

/** The destination asked for a wait, ms, without a refusal. */
export function afterAskedToWait(pace: Pace, askedMs: number, now: number): Pace {
  const heldUntil = Math.max(pace.heldUntil, now + Math.min(askedMs, MAX_RETRY_AFTER_MS));
  // Evenly spaced from the first request on.
  return { ...pace, heldUntil, nextAt: Math.max(pace.nextAt, heldUntil + BURST_MS) };
}

/** The destination refused a request that began at `beganAt` for its rate, alone or not. `askedMs`: its `Retry-After`, 0 without one. */
export function afterRefusal(pace: Pace, askedMs: number, beganAt: number, now: number, atPace = true): Pace {
  const refusedShare = pace.refusedShare + (1 - pace.refusedShare) / SHARE_OF_REQUESTS;
  if (isAlone(pace))
    return {
      ...pace,
      refusedShare,
      perSecond: pace.perSecond * (1 - LOWERED_BY_ONE),
      isOneRefused: true,
      steadyFor: Math.max(pace.steadyFor, STEADY_REQUESTS),
    };
  const asked = { ...afterAskedToWait(pace, askedMs, now), refusedShare };
  if (beganAt < pace.refusedAt) return asked;
  const isAsked = askedMs > 0 && pace.refusals === 0;
  const backoffMs = isAsked ? 0 : Math.min(BACKOFF_MS * 2 ** Math.min(pace.refusals, 30), MAX_BACKOFF_MS);
  const held = afterAskedToWait(asked, backoffMs, now);
  const refused = { ...held, refusals: pace.refusals + 1, refusedAt: now };
  const { heldUntil } = held;
  if (pace.refusals > 0) return refused;
  if (!atPace && Number.isFinite(pace.perSecond)) return refused;
  const { perSecond, ceiling } = loweredPace(pace, now);
  const isKnown = Number.isFinite(ceiling);
  const steadyMs = Math.max(STEADY_MS, STEADY_WAITS * (heldUntil - now));
  return {
    ...refused,
    perSecond: Math.max(MIN_PER_SECOND, perSecond),
    ceiling,
    steadyUntil: isKnown ? heldUntil + steadyMs : now,
    steadyFor: isKnown ? Math.min(STEADY_REQUESTS, Math.ceil((perSecond * STEADY_MS) / 1_000)) : 0,
  };
}

/**
 * Whether a refusal now is one of few among many accepted requests, and about its delivery: then that alone waits. A destination that is asked for too much refuses several in a row; the first refusals are
 * judged by that, as their share is not known.
 */
export function isAlone(pace: Pace): boolean {
  const { refusals, isOneRefused, refusedShare, perSecond, accepted, acceptedBefore } = pace;
  if (refusals > 0 || isOneRefused || accepted + acceptedBefore === 0) return false;
  return refusedShare < (Number.isFinite(perSecond) ? SMALL_SHARE : 2 * SMALL_SHARE);
}

function loweredPace(pace: Pace, now: number): Pick<Pace, 'perSecond' | 'ceiling'> {
  const { perSecond: before, heldUntil } = pace;
  const took = acceptedInASecond(pace, now);
  if (!Number.isFinite(before)) {
    const ceiling = took >= TELLING ? took : Number.POSITIVE_INFINITY;
    return { perSecond: Math.max(FIRST_PER_SECOND, below(took)), ceiling };
  }
  // A second without a wait shows how far below the pace the limit is.
  if (now - heldUntil >= 1_000 && took < before / 2) return { perSecond: below(took), ceiling: took };
  const isFarBelow = now - heldUntil < AGAIN_MS || !Number.isFinite(pace.ceiling);
  return { perSecond: below(isFarBelow ? before * FAR_BELOW : before), ceiling: before };
}

function below(perSecond: number): number {
  const [least, most] = [perSecond * LOWERED_BY_AT_LEAST, perSecond * LOWERED_BY_AT_MOST];
  return perSecond - Math.min(Math.max(1, least), most);
}

type AcceptedCounts = Pick<Pace, 'accepted' | 'acceptedBefore' | 'countedFrom'>;

function acceptedCounts({ accepted, acceptedBefore, countedFrom }: Pace, now: number): AcceptedCounts {
  const age = now - countedFrom;
  if (age < 1_000) return { accepted, acceptedBefore, countedFrom };
  return { accepted: 0, acceptedBefore: age < 2_000 ? accepted : 0, countedFrom: now - (age % 1_000) };
}

/** Accepted requests of the last second; those of the second before fade out while the current one fills. */
function acceptedInASecond(pace: Pace, now: number): number {
  const { accepted, acceptedBefore, countedFrom } = acceptedCounts(pace, now);
  return accepted + acceptedBefore * (1 - (now - countedFrom) / 1_000);
}

/** The destination is back after its circuit was open. */
export function afterRecovery(pace: Pace, now: number): Pace {
  return { ...pace, ramp: RAMP_OF_RECOVERED, rampFrom: now };
}

/**
 * A request that began at `beganAt` failed: while their number still doubles, requests at a time are halved, once for all
 * that were under way together. Otherwise the failure is the circuit breaker's concern alone.
 */
export function afterFailedRequest(pace: Pace, max: number, beganAt: number, now: number): Pace {
  const atATime = pacedConcurrency({ ...pace, refusals: 0 }, max, now);
  if (atATime >= max || beganAt < pace.rampFrom) return pace;
  return { ...pace, ramp: Math.max(1, Math.floor(atATime / 2)), rampFrom: now };
}
