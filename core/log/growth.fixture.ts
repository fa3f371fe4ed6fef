import {
  adoptedLayout,
  ancestorsOf,
  announcedLayout,
  type Bounds,
  isPast,
  type TopicLayout,
} from './layout.ts';
import { partitionOf } from './record-layout.ts';

/** The parts of the protocol, which the model can leave out one by one. */
export interface Precautions {
  /** A growth is announced before it is adopted, and appends are careful meanwhile. */
  readonly announced: boolean;
  /** Careful appends of gateways look the newest layout up first. */
  readonly looksUp: boolean;
  /** Careful appends bound every record, not only the first. */
  readonly boundsAll: boolean;
  /** Once it is not careful any more, a gateway bounds the first record that it appends to an added partition. */
  readonly boundsFirst: boolean;
  /** Bounds name all ancestors, not only the last. */
  readonly allAncestors: boolean;
  /** Readers wait for bounds. */
  readonly readersWait: boolean;
  /** An owner bounds the first records that it writes to an added partition. */
  readonly ownersBound: boolean;
  /** An owner has caught up with the catalog before it works. */
  readonly caughtUpAtTakeover: boolean;
  /** An owner catches up again once it has waited for a bound. */
  readonly caughtUpAfterWait: boolean;
  /** And bounds its first records again. */
  readonly boundsAfterWait: boolean;
  /** A partition is only grown to a multiple. */
  readonly multiples: boolean;
}

export const PROTOCOL: Precautions = {
  announced: true,
  looksUp: true,
  boundsAll: true,
  boundsFirst: true,
  allAncestors: true,
  readersWait: true,
  ownersBound: true,
  caughtUpAtTakeover: true,
  caughtUpAfterWait: true,
  boundsAfterWait: true,
  multiples: true,
};

type Name = 'received' | 'accepted';

interface Growth {
  readonly topic: Name;
  readonly type: 'announced' | 'adopted';
  readonly to: number;
  readonly at: number;
}

interface ModelRecord {
  readonly key: string;
  readonly seq: number;
  readonly after: Bounds;
}

/** A process: it knows the first facts of the catalog. */
interface Process {
  known: number;
  /** A gateway: partitions that it has bounded a record of, under which number of partitions. */
  readonly bounded?: Map<number, number>;
}

/** An append of a gateway, on its way. */
interface Append {
  readonly gateway: Process;
  readonly key: string;
  readonly seq: number;
  readonly begun: number;
  step: 'begun' | 'looked up' | 'placed' | 'landed';
  careful: boolean;
  partition: number;
  after: Bounds;
  /** Its record counts as the first that its gateway bounded in the partition, under this number of partitions. */
  bounds?: number;
}

/** The owner of a partition of `received`, which copies its records to `accepted`. */
interface Owner {
  process: Process;
  /** Partitions that it has bounded a record of. */
  bounded: Set<number>;
  /** The offset of the record that it has waited for. */
  waited: number;
  /** The next commit: where the record goes. */
  prepared: { readonly partition: number; readonly after: Bounds } | undefined;
}

const KEYS = ['a', 'b', 'c', 'd', 'e'];
const FIRST: TopicLayout = { partitions: 1, earlier: [] };
const STEPS: readonly number[] = [1, 2, 4, 12];
/** Not multiples of each other. */
const WRONG_STEPS: readonly number[] = [1, 2, 3, 5];
const NONE: Bounds = new Map();

/**
 * Two gateways append the events of five producers to `received`; two processors copy them to `accepted`, partition by
 * partition; a reader takes them from there. Each producer sends its next event once the last was confirmed, to either
 * gateway. Facts of the catalog reach each process late; owners change at any moment, and a commit of an owner that was
 * replaced is refused, as the log does.
 */
export class GrowthModel {
  readonly #with: Precautions;
  readonly #facts: Growth[] = [];
  readonly #gateways: readonly Process[] = [
    { known: 0, bounded: new Map() },
    { known: 0, bounded: new Map() },
  ];
  readonly #processors: readonly Process[] = [{ known: 0 }, { known: 0 }];
  readonly #topics: Readonly<Record<Name, ModelRecord[][]>> = { received: [], accepted: [] };
  readonly #appends = new Map<string, Append>();
  readonly #sent = new Map<string, number>();
  readonly #owners = new Map<number, Owner>();
  readonly #copied: number[] = [];
  readonly #read: number[] = [];
  readonly #arrived = new Map<string, number>();
  #now = 0;
  fault: string | undefined;
  adoptions = 0;
  moved = 0;

  constructor(precautions: Precautions) {
    this.#with = precautions;
  }

  /** Carries out one of the actions. */
  act(choice: number): void {
    this.#now++;
    const actions = this.#actions();
    actions[choice % actions.length]?.();
  }

  /** Carries on without growth and new events until nothing is on its way. */
  finish(): void {
    for (let round = 0; round < 10_000 && this.fault === undefined; round++) {
      this.#now++;
      if (this.#isDone()) return;
      for (const append of this.#appends.values()) this.#advance(append);
      for (let partition = 0; partition < this.#count('received'); partition++) this.#copy(partition);
      for (let partition = 0; partition < this.#count('accepted'); partition++) this.#take(partition);
    }
    this.fault ??= 'events never arrive';
  }

  #isDone(): boolean {
    if (this.#appends.size > 0) return false;
    return [...this.#sent].every(([key, seq]) => this.#arrived.get(key) === seq);
  }

  /** Some actions are listed more than once: they are more frequent. */
  #actions(): readonly (() => void)[] {
    const learn = [...this.#gateways, ...this.#processors].map((process) => () => this.#learn(process));
    const sends = KEYS.flatMap((key) =>
      this.#appends.has(key) ? [] : this.#gateways.map((gateway) => () => this.#send(key, gateway)),
    );
    const advances = [...this.#appends.values()].flatMap((append) => {
      const advance = () => this.#advance(append);
      return [advance, advance];
    });
    const partitions = Array.from({ length: this.#count('received') }, (_, n) => n);
    const copies = partitions.flatMap((partition) => {
      const copy = () => this.#copy(partition);
      return [copy, copy];
    });
    const moves = partitions.flatMap((partition) =>
      this.#processors.map((process) => () => this.#takeOver(partition, process)),
    );
    const reads = Array.from({ length: this.#count('accepted') }, (_, n) => () => this.#take(n));
    const grows = (['received', 'accepted'] as const).map((topic) => () => this.#grow(topic));
    return [...learn, ...sends, ...advances, ...copies, ...moves, ...reads, ...grows];
  }

  #learn(process: Process): void {
    process.known = Math.min(this.#facts.length, process.known + 1);
  }

  #layout(topic: Name, known = this.#facts.length): TopicLayout {
    let layout = FIRST;
    for (const fact of this.#facts.slice(0, known)) {
      if (fact.topic !== topic) continue;
      layout =
        fact.type === 'announced'
          ? announcedLayout(layout, fact.to)
          : adoptedLayout({ ...layout, announced: fact.to }, String(fact.at));
    }
    return layout;
  }

  #count(topic: Name): number {
    return this.#layout(topic).partitions;
  }

  #records(topic: Name, partition: number): ModelRecord[] {
    const records = this.#topics[topic][partition] ?? [];
    this.#topics[topic][partition] = records;
    return records;
  }

  /** The operator's command: announces, and adopts once every gateway knows of it or is not trusted any more. */
  #grow(topic: Name): void {
    const layout = this.#layout(topic);
    const steps = this.#with.multiples ? STEPS : WRONG_STEPS;
    const to = layout.announced ?? steps[steps.indexOf(layout.partitions) + 1];
    if (to === undefined) return;
    if (layout.announced === undefined && this.#with.announced) {
      this.#facts.push({ topic, type: 'announced', to, at: this.#now });
      return;
    }
    this.#facts.push({ topic, type: 'adopted', to, at: this.#now });
    this.adoptions++;
    this.moved += KEYS.filter(
      (key) => this.#sent.has(key) && partitionOf(key, to) !== partitionOf(key, layout.partitions),
    ).length;
  }

  #send(key: string, gateway: Process): void {
    const seq = (this.#sent.get(key) ?? 0) + 1;
    this.#sent.set(key, seq);
    this.#appends.set(key, {
      gateway,
      key,
      seq,
      begun: this.#now,
      step: 'begun',
      careful: false,
      partition: 0,
      after: NONE,
    });
  }

  #advance(append: Append): void {
    const { gateway, key, seq } = append;
    switch (append.step) {
      case 'begun':
        // A gateway that does not know of an announcement by the adoption is stale, and refuses until it has caught up.
        if (this.#isStale(gateway)) gateway.known = this.#facts.length;
        append.careful = this.#isCareful(gateway);
        if (append.careful && this.#with.looksUp) gateway.known = this.#facts.length;
        append.step = 'looked up';
        if (!append.careful) this.#append(append);
        return;
      case 'looked up':
        this.#append(append);
        return;
      case 'placed':
        this.#records('received', append.partition).push({ key, seq, after: append.after });
        // Not before: a record that is placed later may land first.
        if (append.bounds !== undefined) gateway.bounded?.set(append.partition, append.bounds);
        append.step = 'landed';
        return;
      case 'landed':
        this.#appends.delete(key);
    }
  }

  /** The layout is looked up and the partition chosen in one turn of the process. */
  #append(append: Append): void {
    const { earlier, partitions } = this.#layout('received', append.gateway.known);
    const { bounded } = append.gateway;
    append.partition = partitionOf(append.key, partitions);
    const isFirst = bounded?.get(append.partition) !== partitions;
    const isBounded = append.careful ? this.#with.boundsAll || isFirst : this.#with.boundsFirst && isFirst;
    if (isBounded) append.after = this.#boundsOf('received', append.partition, earlier);
    if (isBounded && !(append.careful && this.#with.boundsAll)) append.bounds = partitions;
    append.step = 'placed';
  }

  #isStale({ known }: Process): boolean {
    if (!this.#with.announced) return false;
    return this.#facts.some(
      ({ type, topic, to }, i) =>
        i >= known &&
        type === 'announced' &&
        this.#facts.some((fact) => fact.type === 'adopted' && fact.topic === topic && fact.to === to),
    );
  }

  /** While a growth is announced, and until all appends that began before its adoption are over. */
  #isCareful({ known }: Process): boolean {
    const { announced } = this.#layout('received', known);
    if (announced !== undefined) return true;
    const since = this.#facts.slice(0, known).findLast((f) => f.topic === 'received' && f.type === 'adopted');
    return since !== undefined && [...this.#appends.values()].some(({ begun }) => begun <= since.at);
  }

  #boundsOf(topic: Name, partition: number, earlier: readonly number[]): Bounds {
    const ancestors = ancestorsOf(partition, this.#with.allAncestors ? earlier : earlier.slice(-1));
    return new Map(ancestors.map((each) => [each, this.#records(topic, each).length]));
  }

  #takeOver(partition: number, process: Process): void {
    if (this.#with.caughtUpAtTakeover) process.known = this.#facts.length;
    this.#owners.set(partition, { process, bounded: new Set(), waited: -1, prepared: undefined });
  }

  /** One step of the owner of a partition: prepares the next commit, or commits. */
  #copy(partition: number): void {
    const owner = this.#owners.get(partition);
    if (owner === undefined) {
      this.#takeOver(partition, this.#processors[partition % 2] ?? { known: 0 });
      return;
    }
    const at = this.#copied[partition] ?? 0;
    const record = this.#records('received', partition)[at];
    if (record === undefined) return;
    if (owner.prepared !== undefined) {
      const { prepared } = owner;
      owner.prepared = undefined;
      this.#records('accepted', prepared.partition).push({ ...record, after: prepared.after });
      if (prepared.after.size > 0) owner.bounded.add(prepared.partition);
      this.#copied[partition] = at + 1;
      return;
    }
    if (!this.#mayRead(record, this.#copied)) return;
    if (record.after.size > 0 && owner.waited !== at) {
      owner.waited = at;
      if (this.#with.caughtUpAfterWait) owner.process.known = this.#facts.length;
      if (this.#with.boundsAfterWait) owner.bounded = new Set();
    }
    const { partitions, earlier } = this.#layout('accepted', owner.process.known);
    const to = partitionOf(record.key, partitions);
    const needsBounds = this.#with.ownersBound && !owner.bounded.has(to);
    owner.prepared = { partition: to, after: needsBounds ? this.#boundsOf('accepted', to, earlier) : NONE };
  }

  #mayRead({ after }: ModelRecord, done: readonly number[]): boolean {
    return !this.#with.readersWait || isPast(after, new Map(done.entries()));
  }

  /** The reader of `accepted`. */
  #take(partition: number): void {
    const at = this.#read[partition] ?? 0;
    const record = this.#records('accepted', partition)[at];
    if (record === undefined || !this.#mayRead(record, this.#read)) return;
    this.#read[partition] = at + 1;
    const last = this.#arrived.get(record.key) ?? 0;
    if (record.seq !== last + 1) this.fault ??= `${record.key}: ${record.seq} after ${last}`;
    this.#arrived.set(record.key, record.seq);
  }
}
