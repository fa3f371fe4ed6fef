import { LRUCache } from 'lru-cache';
import type { SandboxCall } from './calls.ts';
import { closedError, downError, type SlotSettings, WorkerSlot } from './worker-slot.ts';

type Settings = Omit<
  SlotSettings,
  'isLowPriority' | 'restartDelayMs' | 'recordHarm' | 'resume' | 'onBlocked'
>;

/**
 * The worker slots of a sandbox, and the assignment of calls to them. A program is assigned to one slot by its id. While a
 * slow task blocks that slot, calls of other owners move to the next one. Owners of harmful programs are quarantined: they
 * run in a slot of their own, created on first need, whose worker has low priority.
 */
export class WorkerSlots {
  readonly #settings: SlotSettings;
  readonly #count: number;
  #slots: readonly WorkerSlot[] = [];
  readonly #reputation = new Reputation();
  #quarantine: WorkerSlot | undefined;
  #closed = false;

  /** Starts no worker before the first call. */
  constructor(count: number, settings: Settings) {
    this.#settings = {
      ...settings,
      isLowPriority: false,
      restartDelayMs: 0,
      recordHarm: (owner) => this.#quarantineOwner(owner),
      resume: (call, slot) => this.#resume(call, slot),
      onBlocked: (slot, owner) => this.#moveBlocked(slot, owner),
    };
    this.#count = count;
  }

  submit(call: SandboxCall): void {
    if (this.#closed) {
      call.reject(closedError());
      return;
    }
    const slot = this.#slotFor(call);
    if (slot === undefined) call.reject(downError());
    else slot.submit(call);
  }

  get pids(): readonly number[] {
    return this.#all().flatMap(({ pid }) => (pid === undefined ? [] : [pid]));
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.#all().map((slot) => slot.close()));
  }

  #all(): readonly WorkerSlot[] {
    return this.#quarantine === undefined ? this.#slots : [...this.#slots, this.#quarantine];
  }

  #slotFor({ program: { id, owner } }: SandboxCall): WorkerSlot | undefined {
    if (this.#slots.length === 0) this.#start();
    const quarantine = this.#isQuarantined(owner) ? this.#quarantine : undefined;
    if (quarantine?.isDown === false) return quarantine;
    const own = hash(id) % this.#slots.length;
    const up = [...this.#slots.slice(own), ...this.#slots.slice(0, own)].filter(({ isDown }) => !isDown);
    return up.find(({ isBlocked }) => !isBlocked) ?? up[0];
  }

  #start(): void {
    this.#slots = Array.from({ length: this.#count }, () => new WorkerSlot(this.#settings));
  }

  #isQuarantined(owner: string): boolean {
    return this.#reputation.isQuarantined(owner, performance.now());
  }

  #quarantineOwner(owner: string): void {
    if (this.#closed) return;
    this.#reputation.recordHarm(owner, performance.now());
    this.#quarantine ??= new WorkerSlot({
      ...this.#settings,
      isLowPriority: true,
      restartDelayMs: this.#settings.limits.restartDelayMs,
    });
    for (const slot of this.#slots) {
      for (const call of slot.remove((queued) => queued === owner)) this.submit(call);
    }
  }

  /** A call stays in its slot, unless its owner has been quarantined meanwhile. */
  #resume(call: SandboxCall, slot: WorkerSlot): void {
    const quarantine = this.#isQuarantined(call.program.owner) ? this.#quarantine : undefined;
    (quarantine?.isDown === false ? quarantine : slot).resume(call);
  }

  /** Moves queued calls of other owners to a slot that is not blocked, if there is one. */
  #moveBlocked(from: WorkerSlot, slow: string | undefined): void {
    if (from === this.#quarantine || this.#slots.every(({ isBlocked, isDown }) => isBlocked || isDown))
      return;
    for (const call of from.remove((owner) => owner !== slow)) this.submit(call);
  }
}

/** FNV-1a, 32 bit. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193);
  return value >>> 0;
}

/** First and longest duration of a quarantine, ms. It doubles with each harm done soon after the last one ended. */
const FIRST_MS = 30_000;
const LONGEST_MS = 600_000;
const MAX_OWNERS = 10_000;

interface Penalty {
  until: number;
  lengthMs: number;
}

/**
 * The owners in quarantine: one of their programs occupied a worker until it was stopped, or took it down. It ends once the
 * owner has done no harm for its duration.
 */
export class Reputation {
  readonly #penalties = new LRUCache<string, Penalty>({ max: MAX_OWNERS });

  /** `now`: monotonic time, ms. */
  recordHarm(owner: string, now: number): void {
    const lengthMs = lengthOf(this.#penalties.get(owner), now);
    this.#penalties.set(owner, { until: now + lengthMs, lengthMs });
  }

  isQuarantined(owner: string, now: number): boolean {
    return now < (this.#penalties.get(owner)?.until ?? 0);
  }
}

function lengthOf(known: Penalty | undefined, now: number): number {
  if (known === undefined || now >= known.until + known.lengthMs) return FIRST_MS;
  return now < known.until ? known.lengthMs : Math.min(LONGEST_MS, known.lengthMs * 2);
}
