import {
  type Clock,
  type Crowd,
  DEFAULT_SLOW_AFTER_MS,
  type LaneOptions,
  type LaneTicket,
  LaneWindow,
  type LogEntry,
} from '@tributary/core';
import Denque from 'denque';

/** Who waits for a quick key has so many times the patience of work itself: a burst is soon over. */
const WAITING_PATIENCE = 10;

/** How often it is looked whose patience is over, ms: it may last this much longer. */
const CHECK_MS = 25;

const NOTHING_WAITS: Crowd = { waitMs: () => 0, overloaded: () => false };

/** Who wants to begin work on an entry. Told one of these, once. */
export interface Entrant {
  /** Work may begin. */
  entered(stay: Stay): void;
  /** The entry belongs into the slow lane. */
  turnedAway(): void;
}

/**
 * A key that is alone in its partition is looked past for others once its work waits for so long, ms; else what is behind
 * it would fill the window with what can only wait.
 */
const LOOK_PAST_MS = 100;

interface Waiter {
  readonly bytes: number;
  /** When it came, ms. */
  readonly since: number;
  readonly crowd: Crowd | undefined;
  readonly entrant: Entrant;
}

interface Waiters {
  readonly line: Denque<Waiter>;
  bytes: number;
  /** When the patience of all who came before began anew, ms. */
  patientSince: number;
  /** Whether those who may are being let in: whoever ends meanwhile need not see to it. */
  areEntering: boolean;
}

interface Lane {
  readonly window: LaneWindow;
  /** Work that waits for its key to have room, by key, in the order it came. */
  readonly waiters: Map<string, Waiters>;
  /** Enough waits of the one key that comes. */
  hasEnough: boolean;
}

/** Work on an entry, until its end. */
export class Stay implements LaneTicket {
  readonly key: string;
  readonly bytes: number;
  readonly startedAt: number;
  readonly crowd: Crowd | undefined;
  readonly #lane: Lane;
  readonly #ended: (lane: Lane, stay: Stay) => void;

  constructor(
    key: string,
    bytes: number,
    startedAt: number,
    crowd: Crowd | undefined,
    lane: Lane,
    ended: (lane: Lane, stay: Stay) => void,
  ) {
    this.key = key;
    this.bytes = bytes;
    this.startedAt = startedAt;
    this.crowd = crowd;
    this.#lane = lane;
    this.#ended = ended;
  }

  /** The work ended. */
  leave(): void {
    this.#ended(this.#lane, this);
  }
}

/** The lane windows of one flow stage: a window of its own for each partition, as the log keeps them. */
export class PartitionLanes {
  readonly #elapsed: Clock;
  readonly #options: LaneOptions;
  readonly #lanes = new Map<string, Lane[]>();
  #checking: NodeJS.Timeout | undefined;

  /** `elapsed`: ms that never go back. */
  constructor(elapsed: Clock, options: LaneOptions) {
    this.#elapsed = elapsed;
    this.#options = options;
  }

  /** How long work may take before its key is slow, ms. */
  get slowAfterMs(): number {
    return this.#options.slowAfterMs ?? DEFAULT_SLOW_AFTER_MS;
  }

  /**
   * Lets `entrant` in when work for `key` (a destination, a transformation) may begin on an entry whose value has so
   * many bytes. A key that is quick waits for its own earlier work, and with a `crowd` no longer than work may take;
   * one that is slow or takes up the room of others is turned away.
   */
  enter(entry: LogEntry, key: string, bytes: number, entrant: Entrant, crowd?: Crowd): void {
    const lane = this.#laneOf(entry);
    const waiting = lane.waiters.get(key);
    const now = this.#elapsed();
    const decided = lane.window.decide(key, bytes, now, crowd, waiting?.bytes);
    if (decided === 'slow') entrant.turnedAway();
    else if (decided === 'fast' && waiting === undefined)
      entrant.entered(this.#begin(lane, key, bytes, now, crowd));
    else this.#wait(lane, key, waiting, { bytes, since: now, crowd, entrant });
  }

  /**
   * Whether more of a partition is of use, see `FlowStage.wantsMore`. It is not while all that came lately is of one key,
   * a share of the window waits for its turn, and each has that soon: others that are behind it lose next to nothing,
   * and a backlog of one key does not keep a whole window of its own in memory.
   */
  wantsMore(topic: string, partition: number): boolean {
    const lane = this.#lanes.get(topic)?.[partition];
    if (lane === undefined) return true;
    lane.hasEnough = this.#hasEnough(lane);
    return !lane.hasEnough;
  }

  #hasEnough({ window, waiters: byKey, hasEnough }: Lane): boolean {
    const [waiters] = byKey.values();
    const first = waiters?.line.peekFront();
    if (waiters === undefined || first === undefined || window.keysSeen > 1) return false;
    // Once there is enough, half of it is to be done before more is taken, and not each piece by itself.
    const enoughBytes = hasEnough ? window.shareBytes / 2 : window.shareBytes;
    return waiters.bytes >= enoughBytes && this.#elapsed() - first.since < LOOK_PAST_MS;
  }

  #wait(lane: Lane, key: string, known: Waiters | undefined, waiter: Waiter): void {
    const waiters = known ?? {
      line: new Denque<Waiter>(),
      bytes: 0,
      patientSince: Number.NEGATIVE_INFINITY,
      areEntering: false,
    };
    if (known === undefined) lane.waiters.set(key, waiters);
    if (waiter.crowd !== undefined) this.#checkSoon();
    waiters.line.push(waiter);
    waiters.bytes += waiter.bytes;
  }

  /** One timer for all that wait: thousands do, where a destination has a long backlog. */
  #checkSoon(): void {
    this.#checking ??= setTimeout(() => {
      this.#checking = undefined;
      let someWait = false;
      for (const lanes of this.#lanes.values())
        for (const lane of lanes) if (lane !== undefined) someWait = this.#giveUpOld(lane) || someWait;
      if (someWait) this.#checkSoon();
    }, CHECK_MS).unref();
  }

  /** Who waits too long gives up, but never while it is this process that others wait for. Whether some wait on. */
  #giveUpOld({ waiters: byKey }: Lane): boolean {
    let someWait = false;
    const now = this.#elapsed();
    for (const [key, waiters] of byKey) {
      const { line } = waiters;
      // Who is behind came later: most looks end at the first, however many wait.
      for (let first = line.peekFront(); first !== undefined; first = line.peekFront()) {
        const { bytes, since, crowd, entrant } = first;
        const waitedMs = now - Math.max(since, waiters.patientSince);
        if (crowd === undefined || waitedMs < this.slowAfterMs * WAITING_PATIENCE) break;
        if (crowd.overloaded()) {
          waiters.patientSince = now;
          break;
        }
        line.shift();
        waiters.bytes -= bytes;
        entrant.turnedAway();
      }
      if (line.length === 0) byKey.delete(key);
      else someWait = true;
    }
    return someWait;
  }

  /**
   * As `enter`, for a lane that has no slower one: never waits, and gives undefined only for a key that takes up the
   * room of others.
   */
  enterAtOnce(entry: LogEntry, key: string, bytes: number): Stay | undefined {
    const lane = this.#laneOf(entry);
    const now = this.#elapsed();
    const decided = lane.window.decide(key, bytes, now, NOTHING_WAITS);
    return decided === 'slow' ? undefined : this.#begin(lane, key, bytes, now, undefined);
  }

  #begin(lane: Lane, key: string, bytes: number, now: number, crowd: Crowd | undefined): Stay {
    const stay = new Stay(key, bytes, now, crowd, lane, this.#ended);
    lane.window.admit(stay);
    return stay;
  }

  readonly #ended = (lane: Lane, stay: Stay): void => {
    const now = this.#elapsed();
    lane.window.end(stay, now, stay.crowd);
    this.#admit(lane, stay.key, now);
  };

  #admit(lane: Lane, key: string, now: number): void {
    const waiters = lane.waiters.get(key);
    if (waiters === undefined || waiters.areEntering) return;
    const { line } = waiters;
    waiters.areEntering = true;
    for (let waiter = line.peekFront(); waiter !== undefined; waiter = line.peekFront()) {
      const { bytes, crowd, entrant } = waiter;
      const decided = lane.window.decide(key, bytes, now, crowd);
      if (decided === 'wait') break;
      line.shift();
      waiters.bytes -= bytes;
      if (decided === 'slow') entrant.turnedAway();
      else entrant.entered(this.#begin(lane, key, bytes, now, crowd));
    }
    waiters.areEntering = false;
    if (line.length === 0) lane.waiters.delete(key);
  }

  #laneOf({ position }: LogEntry): Lane {
    const { topic, partition } = position;
    const known = this.#lanes.get(topic)?.[partition];
    if (known !== undefined) return known;
    const lane = {
      window: new LaneWindow(this.#options),
      waiters: new Map<string, Waiters>(),
      hasEnough: false,
    };
    const lanes = this.#lanes.get(topic) ?? [];
    lanes[partition] = lane;
    this.#lanes.set(topic, lanes);
    return lane;
  }
}
