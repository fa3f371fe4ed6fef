import { type Identity, Unavailable } from '@tributary/core';
import {
  type Claim,
  claimId,
  claimOf,
  type ProfileDocument,
  profileDocumentOf,
  profileId,
} from './document-forms.ts';
import type { Documents, DocumentVersion } from './documents.ts';
import { holds } from './holds.ts';
import { type Root, rootOf } from './roots.ts';

/** How often a profile may be merged and split while it is read. */
const MAX_ROUNDS = 20;

/** An identity of one scope, with the hash that its claim is named by. */
export interface HashedIdentity {
  readonly identity: Identity;
  readonly claim: string;
}

/** Where a claim was seen to lead; may be outdated. */
export interface Hints {
  get(claim: string): string | undefined;
  set(claim: string, ucid: string): void;
  delete(claim: string): void;
}

/**
 * What an operation read, each document at a time of its own. What it says together may never have been so: an operation
 * that acts on it compares-and-sets what it acts on.
 *
 * Because of splits it says two things only where they were so at one moment: that a claim leads to a profile which does
 * not have the identity, and that a frozen profile is one of its own. The claim, or the frozen profile, is read before
 * and after the profile that it leads to, and was the same.
 */
export class View {
  readonly #documents: Documents;
  readonly #hints: Hints;
  readonly #claims = new Map<string, Claim | undefined>();
  readonly #profiles = new Map<string, ProfileDocument | undefined>();
  /** Claims that were not read, as the profile of the hint lists the identity: then they lead there. */
  readonly #hinted = new Map<string, string>();
  readonly #identities = new Map<string, Identity>();

  constructor(documents: Documents, hints: Hints) {
    this.#documents = documents;
    this.#hints = hints;
  }

  async load(identities: readonly HashedIdentity[], ucids: readonly string[]): Promise<void> {
    const unhinted: HashedIdentity[] = [];
    const hinted: HashedIdentity[] = [];
    const profiles = new Set(ucids);
    for (const one of identities) {
      this.#identities.set(one.claim, one.identity);
      const hint = this.#hints.get(one.claim);
      if (hint === undefined) {
        unhinted.push(one);
      } else {
        hinted.push(one);
        this.#hinted.set(one.claim, hint);
        profiles.add(hint);
      }
    }
    await this.#read(unhinted, profiles);
    // What is read again may bear out a hint no more.
    for (let rest = hinted; ; ) {
      const wrong = rest.filter(({ identity, claim }) => !this.#isBorneOut(identity, claim));
      for (const { claim } of wrong) {
        this.#hinted.delete(claim);
        this.#hints.delete(claim);
      }
      if (wrong.length > 0) await this.#read(wrong, new Set());
      else if (rest !== hinted || (this.#claims.size === 0 && ucids.length === 0)) return;
      await this.#follow(ucids);
      await this.#settleDoubts(ucids);
      rest = rest.filter(({ claim }) => this.#hinted.has(claim));
    }
  }

  /** Lets later operations know where the claim leads. */
  remember(claim: string, ucid: string): void {
    if (this.#hinted.get(claim) !== ucid) this.#hints.set(claim, ucid);
  }

  claim(claim: string): Claim | undefined {
    return this.#claims.get(claim);
  }

  /** The profile that a claim leads to; undefined where nobody claimed. */
  rootOfClaim(claim: string): Root | undefined {
    const ucid = this.#hinted.get(claim) ?? this.#claims.get(claim)?.ucid;
    return ucid === undefined ? undefined : this.rootOf(ucid);
  }

  rootOf(ucid: string): Root {
    return rootOf(ucid, this.#profiles);
  }

  document(ucid: string): ProfileDocument | undefined {
    return this.#profiles.get(ucid);
  }

  #isBorneOut(identity: Identity, claim: string): boolean {
    const document = this.#profiles.get(this.#hinted.get(claim) ?? '');
    return document?.state === 'live' && holds(document.content.profile, identity);
  }

  /** Where the claims lead, and the ucids. */
  *#targets(ucids: readonly string[]): Generator<string> {
    for (const claim of this.#claims.values()) if (claim !== undefined) yield claim.ucid;
    yield* ucids;
  }

  /** Reads on until it is known what everything leads to. */
  async #follow(ucids: readonly string[]): Promise<void> {
    let tears = 0;
    while (true) {
      const unread = new Set<string>();
      for (const ucid of this.#targets(ucids)) {
        const root = this.rootOf(ucid);
        if (root.kind === 'unread') unread.add(root.ucid);
        if (root.kind === 'torn') for (const torn of [root.ucid, root.of]) unread.add(torn);
      }
      if (unread.size === 0) return;
      if ([...unread].some((ucid) => this.#profiles.has(ucid))) tears++;
      if (tears > MAX_ROUNDS) throw tornApart();
      await this.#read([], unread);
    }
  }

  /** Reads once more what was perhaps read at two sides of a split, until it was so at one moment. */
  async #settleDoubts(ucids: readonly string[]): Promise<void> {
    const settled = new Set<string>();
    for (let rounds = 0; ; rounds++) {
      const doubts = [...this.#doubts(ucids)].filter(([, doubt]) => !settled.has(textOf(doubt)));
      if (doubts.length === 0) return;
      if (rounds > MAX_ROUNDS) throw tornApart();
      await this.#read([], new Set(doubts.flatMap(([, { of }]) => of)));
      await this.#follow(ucids);
      await this.#read(
        doubts.flatMap(([, { hashed }]) => hashed ?? []),
        new Set(doubts.flatMap(([, { frozen }]) => frozen ?? [])),
      );
      await this.#follow(ucids);
      const now = this.#doubts(ucids);
      for (const [key, doubt] of doubts) {
        const same = now.get(key);
        if (same !== undefined && textOf(same) === textOf(doubt)) settled.add(textOf(doubt));
      }
    }
  }

  /** By the id of what has to be read before and after what it leads to. */
  #doubts(ucids: readonly string[]): ReadonlyMap<string, Doubt> {
    const doubts = new Map<string, Doubt>();
    for (const [hash, claim] of this.#claims) {
      const identity = this.#identities.get(hash);
      if (claim === undefined || identity === undefined) continue;
      const root = this.rootOf(claim.ucid);
      if (root.kind !== 'profile' && root.kind !== 'deleted') continue;
      if (hasIdentity(root, { identity, claim: hash })) continue;
      const id = claimId(hash);
      doubts.set(id, {
        id,
        version: claim.stored.version,
        hashed: { identity, claim: hash },
        of: [root.ucid],
      });
    }
    for (const ucid of this.#targets(ucids)) {
      const root = this.rootOf(ucid);
      if (root.kind !== 'profile' || root.document.state !== 'redirect') continue;
      const { stored, to } = root.document;
      const master = this.rootOf(to);
      const of = master.kind === 'profile' && master.ucid !== to ? [to, master.ucid] : [to];
      const id = profileId(root.ucid);
      doubts.set(id, { id, version: stored.version, frozen: root.ucid, of });
    }
    return doubts;
  }

  async #read(identities: readonly HashedIdentity[], profiles: ReadonlySet<string>): Promise<void> {
    const claims = new Set(identities.map(({ claim }) => claim));
    const ids = [...claims].map(claimId);
    for (const ucid of profiles) ids.push(profileId(ucid));
    const found = await this.#documents.read(ids);
    let index = 0;
    for (const claim of claims) {
      const stored = found[index++];
      this.#claims.set(claim, stored === undefined ? undefined : claimOf(stored));
    }
    for (const ucid of profiles) this.#profiles.set(ucid, profileDocumentOf(found[index++]));
  }
}

/** Something that is perhaps not so: `of` was read before it, or long after. */
interface Doubt {
  readonly id: string;
  readonly version: DocumentVersion;
  /** Of a claim that leads to a profile without its identity. */
  readonly hashed?: HashedIdentity;
  /** A frozen profile that is one of its own. */
  readonly frozen?: string;
  /** The profiles that say so. */
  readonly of: readonly string[];
}

function textOf({ id, version: { seqNo, primaryTerm }, of }: Doubt): string {
  return [id, seqNo, primaryTerm, ...of].join(' ');
}

function hasIdentity(
  { document }: Extract<Root, { kind: 'profile' | 'deleted' }>,
  { identity, claim }: HashedIdentity,
): boolean {
  return document.state === 'deleted'
    ? document.tombstone.claims.includes(claim)
    : holds(document.content.profile, identity);
}

function tornApart(): Unavailable {
  return new Unavailable('a profile is merged and split faster than it is read');
}
