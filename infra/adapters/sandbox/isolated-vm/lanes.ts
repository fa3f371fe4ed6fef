import { closedError, downError, Lane, type LaneSettings } from './lane.ts';
import { Standing } from './standing.ts';
import type { Work } from './work.ts';

type Settings = Omit<LaneSettings, 'standsBack' | 'restMs' | 'harmed' | 'resume' | 'heldUp'>;

/**
 * The lanes of a sandbox, and who runs in which. A program has a lane of its own among them, by its id. While that one
 * is held up by something slow, what others bring goes to the next; and an owner who did harm is sent apart, to a lane
 * that is made when the first one is, whose worker stands back.
 */
export class Lanes {
  readonly #settings: LaneSettings;
  readonly #count: number;
  #lanes: readonly Lane[] = [];
  readonly #standing = new Standing();
  #apart: Lane | undefined;
  #closed = false;

  /** `isLazy`: there are none until there is something to run. */
  constructor(count: number, isLazy: boolean, settings: Settings) {
    this.#settings = {
      ...settings,
      standsBack: false,
      restMs: 0,
      harmed: (owner) => this.#sendApart(owner),
      resume: (work, lane) => this.#resume(work, lane),
      heldUp: (lane, owner) => this.#relieve(lane, owner),
    };
    this.#count = count;
    if (!isLazy) this.#start();
  }

  submit(work: Work): void {
    if (this.#closed) {
      work.reject(closedError());
      return;
    }
    const lane = this.#laneFor(work);
    if (lane === undefined) work.reject(downError());
    else lane.submit(work);
  }

  get pids(): readonly number[] {
    return this.#all().flatMap(({ pid }) => (pid === undefined ? [] : [pid]));
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.#all().map((lane) => lane.close()));
  }

  #all(): readonly Lane[] {
    return this.#apart === undefined ? this.#lanes : [...this.#lanes, this.#apart];
  }

  #laneFor({ program: { id, owner } }: Work): Lane | undefined {
    if (this.#lanes.length === 0) this.#start();
    const apart = this.#isApart(owner) ? this.#apart : undefined;
    if (apart?.isDown === false) return apart;
    const own = hash(id) % this.#lanes.length;
    const up = [...this.#lanes.slice(own), ...this.#lanes.slice(0, own)].filter(({ isDown }) => !isDown);
    return up.find(({ isHeldUp }) => !isHeldUp) ?? up[0];
  }

  #start(): void {
    this.#lanes = Array.from({ length: this.#count }, () => new Lane(this.#settings));
  }

  #isApart(owner: string): boolean {
    return this.#standing.isApart(owner, performance.now());
  }

  #sendApart(owner: string): void {
    if (this.#closed) return;
    this.#standing.harmed(owner, performance.now());
    this.#apart ??= new Lane({ ...this.#settings, standsBack: true, restMs: this.#settings.limits.restMs });
    for (const lane of this.#lanes) {
      for (const work of lane.leave((waiting) => waiting === owner)) this.submit(work);
    }
  }

  /** What was begun goes on where it is, unless its owner has been sent apart meanwhile. */
  #resume(work: Work, lane: Lane): void {
    const apart = this.#isApart(work.program.owner) ? this.#apart : undefined;
    (apart?.isDown === false ? apart : lane).resume(work);
  }

  /** Others than the owner go to a lane that is not held up, where there is one. */
  #relieve(from: Lane, slow: string | undefined): void {
    if (from === this.#apart || this.#lanes.every(({ isHeldUp, isDown }) => isHeldUp || isDown)) return;
    for (const work of from.leave((owner) => owner !== slow)) this.submit(work);
  }
}

/** FNV-1a, 32 bit. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193);
  return value >>> 0;
}
