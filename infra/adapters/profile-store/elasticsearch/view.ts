import type { Identity } from '@tributary/core';
import {
  type Claim,
  claimId,
  claimOf,
  type ProfileDocument,
  profileDocumentOf,
  profileId,
} from './document-forms.ts';
import type { Documents } from './documents.ts';
import { holds } from './holds.ts';
import { type Root, rootOf } from './roots.ts';

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
 * What an operation read, each document once and at a time of its own. What it says together may never have been so:
 * whoever acts on it compares-and-sets what it acts on.
 */
export class View {
  readonly #documents: Documents;
  readonly #hints: Hints;
  readonly #claims = new Map<string, Claim | undefined>();
  readonly #profiles = new Map<string, ProfileDocument | undefined>();
  /** Claims that were not read, as the profile of the hint lists the identity: then they lead there. */
  readonly #hinted = new Map<string, string>();

  constructor(documents: Documents, hints: Hints) {
    this.#documents = documents;
    this.#hints = hints;
  }

  async load(identities: readonly HashedIdentity[], ucids: readonly string[]): Promise<void> {
    const unhinted: HashedIdentity[] = [];
    const hinted: HashedIdentity[] = [];
    const profiles = new Set(ucids);
    for (const one of identities) {
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
    const wrong = hinted.filter(({ identity, claim }) => !this.#isBorneOut(identity, claim));
    for (const { claim } of wrong) {
      this.#hinted.delete(claim);
      this.#hints.delete(claim);
    }
    if (wrong.length > 0) await this.#read(wrong, new Set());
    if (this.#claims.size > 0 || ucids.length > 0) await this.#follow([...this.#targets(), ...ucids]);
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

  *#targets(): Generator<string> {
    for (const claim of this.#claims.values()) if (claim !== undefined) yield claim.ucid;
  }

  async #follow(ucids: readonly string[]): Promise<void> {
    while (true) {
      const unread = ucids.flatMap((ucid) => {
        const root = this.rootOf(ucid);
        return root.kind === 'unread' ? [root.ucid] : [];
      });
      if (unread.length === 0) return;
      await this.#read([], new Set(unread));
    }
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
