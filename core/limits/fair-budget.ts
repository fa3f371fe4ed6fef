interface FairBudgetOptions {
  readonly capacity: number;
  /**
   * The share of the amount left by other outermost owners that one of them may hold, above 0 up to 1. Below 1, a
   * newcomer always finds room. Between owners inside another it is always 1.
   */
  readonly largestShare: number;
}

interface PermitOptions {
  /** Whether the budget may revoke the permit now to make room for an owner below its fair share. Default: never. */
  readonly mayEnd?: () => boolean;
  /** Called once, after the budget revoked the permit. */
  readonly onEnded?: () => void;
}

/** The part of a budget that one piece of work holds; initially nothing. */
export interface Permit {
  /**
   * Sets the amount of the permit. False, without a change, when an owner's share is used up or there is no room. True without
   * effect after release or revocation.
   */
  resize(amount: number): boolean;
  /** Returns everything. Idempotent. */
  release(): void;
}

/**
 * Divides a bounded amount (bytes, connections) fairly between nested owners: an organization, in it a workspace, in
 * it a key. It never exceeds its capacity, and decides alike at each level:
 *
 * 1. An outermost owner may hold up to `largestShare` of what its siblings leave, an inner one all of that; so a
 *    single owner may hold most of it.
 * 2. An owner that would hold no more than its fair share (the parent's bound divided by the number of active
 *    siblings plus one) is admitted even without room: permits of siblings above their fair share are revoked for it,
 *    the oldest of the largest owner first, if `mayEnd` allows; where they do not suffice, it is refused.
 * 3. Otherwise it is refused.
 */
export class FairBudget {
  readonly #options: FairBudgetOptions;
  readonly #root = new Owner('', undefined);

  constructor(options: FairBudgetOptions) {
    this.#options = options;
  }

  get used(): number {
    return this.#root.used;
  }

  /** `owners`: names, outermost first, at least one. */
  open(owners: readonly string[], options: PermitOptions = {}): Permit {
    const permit = new OpenPermit(options);
    return {
      resize: (amount) => this.#resize(permit, owners, amount),
      release: () => permit.release(),
    };
  }

  #resize(permit: OpenPermit, owners: readonly string[], amount: number): boolean {
    const growth = amount - permit.used;
    if (permit.isOver || growth === 0) return true;
    if (growth < 0) {
      permit.resize(amount);
      return true;
    }
    permit.owner ??= this.#ownerOf(owners);
    if (!this.#admits(permit.owner, growth)) {
      permit.owner.removeIfIdle();
      if (permit.used === 0) permit.owner = undefined;
      return false;
    }
    permit.resize(amount);
    return true;
  }

  #ownerOf(owners: readonly string[]): Owner {
    let owner = this.#root;
    for (const name of owners) owner = owner.child(name);
    return owner;
  }

  /** From the innermost owner outwards: revoking enough inside an owner means that this owner does not grow. */
  #admits(innermost: Owner, amount: number): boolean {
    let growth = amount;
    let owner = innermost;
    while (owner.parent !== undefined && growth > 0) {
      const { parent } = owner;
      const bound = this.#boundOf(parent);
      const wanted = owner.used + growth;
      const fairShare = bound / (parent.childCount + 1);
      const lacking = Math.min(growth, parent.used + growth - bound);
      if (wanted > fairShare) {
        const left = bound - (parent.used - owner.used);
        if (lacking > 0 || wanted > this.#shareIn(parent) * left) return false;
      } else if (lacking > 0) {
        const ended = endOthers(parent, owner, { lacking, fairShare });
        if (ended < lacking) return false;
        growth -= ended;
      }
      owner = parent;
    }
    return true;
  }

  #boundOf(owner: Owner): number {
    const { parent } = owner;
    if (parent === undefined) return this.#options.capacity;
    const bound = this.#boundOf(parent);
    const left = bound - (parent.used - owner.used);
    return Math.max(this.#shareIn(parent) * left, bound / (parent.childCount + 1));
  }

  #shareIn(parent: Owner): number {
    return parent.parent === undefined ? this.#options.largestShare : 1;
  }
}

/** Revokes permits of siblings above their fair share until `lacking` is returned; answers how much was. */
function endOthers(
  parent: Owner,
  owner: Owner,
  { lacking, fairShare }: { readonly lacking: number; readonly fairShare: number },
): number {
  let ended = 0;
  const others = parent.largestFirst().filter((other) => other !== owner && other.used > fairShare);
  for (const other of others) {
    while (ended < lacking && other.used > fairShare) {
      const permit = other.firstToEnd();
      if (permit === undefined) break;
      ended += permit.used;
      permit.end();
    }
  }
  return ended;
}

class Owner {
  readonly name: string;
  readonly parent: Owner | undefined;
  used = 0;
  /** Created lazily: most owners only ever have one small permit that is never revoked. */
  #children: Map<string, Owner> | undefined;
  #endable: Set<OpenPermit> | undefined;

  constructor(name: string, parent: Owner | undefined) {
    this.name = name;
    this.parent = parent;
  }

  get childCount(): number {
    return this.#children?.size ?? 0;
  }

  child(name: string): Owner {
    this.#children ??= new Map();
    const known = this.#children.get(name);
    if (known !== undefined) return known;
    const made = new Owner(name, this);
    this.#children.set(name, made);
    return made;
  }

  largestFirst(): Owner[] {
    return [...(this.#children?.values() ?? [])].sort((a, b) => b.used - a.used);
  }

  /** The oldest revocable permit of this owner or of its largest child that has one. */
  firstToEnd(): OpenPermit | undefined {
    for (const permit of this.#endable ?? []) if (permit.mayEnd()) return permit;
    for (const child of this.largestFirst()) {
      const permit = child.firstToEnd();
      if (permit !== undefined) return permit;
    }
    return undefined;
  }

  add(amount: number): void {
    this.used += amount;
    this.parent?.add(amount);
  }

  remember(permit: OpenPermit): void {
    this.#endable ??= new Set();
    this.#endable.add(permit);
  }

  forget(permit: OpenPermit): void {
    this.#endable?.delete(permit);
    this.removeIfIdle();
  }

  removeIfIdle(): void {
    if (this.used > 0 || this.childCount > 0) return;
    this.parent?.remove(this);
  }

  remove(child: Owner): void {
    // The name may belong to a newer owner already.
    if (this.#children?.get(child.name) !== child) return;
    this.#children.delete(child.name);
    this.removeIfIdle();
  }
}

class OpenPermit {
  readonly #options: PermitOptions;
  owner: Owner | undefined;
  used = 0;
  isOver = false;

  constructor(options: PermitOptions) {
    this.#options = options;
  }

  mayEnd(): boolean {
    return this.#options.mayEnd?.() === true;
  }

  resize(amount: number): void {
    const { owner } = this;
    if (owner === undefined || amount === this.used) return;
    const isNew = this.used === 0;
    owner.add(amount - this.used);
    this.used = amount;
    if (amount === 0) {
      this.owner = undefined;
      owner.forget(this);
    } else if (isNew && this.#options.mayEnd !== undefined) owner.remember(this);
  }

  release(): void {
    this.resize(0);
    this.isOver = true;
  }

  end(): void {
    this.release();
    this.#options.onEnded?.();
  }
}
