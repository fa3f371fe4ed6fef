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
    const hinted = identities.map((one) => ({ ...one, hint: this.#hints.get(one.claim) }));
    const unhinted = hinted.filter(({ hint }) => hint === undefined);
    await this.#read(unhinted, [...hinted.flatMap(({ hint }) => hint ?? []), ...ucids]);
    const wrong: HashedIdentity[] = [];
    for (const { identity, claim, hint } of hinted) {
      if (hint === undefined) continue;
      const document = this.#profiles.get(hint);
      if (document?.state === 'live' && holds(document.content.profile, identity)) {
        this.#hinted.set(claim, hint);
      } else {
        this.#hints.delete(claim);
        wrong.push({ identity, claim });
      }
    }
    if (wrong.length > 0) await this.#read(wrong, []);
    await this.#follow([...this.#targets(), ...ucids]);
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
      await this.#read([], unread);
    }
  }

  async #read(identities: readonly HashedIdentity[], ucids: readonly string[]): Promise<void> {
    const profiles = [...new Set(ucids)];
    const claims = [...new Set(identities.map(({ claim }) => claim))];
    const found = await this.#documents.read([...claims.map(claimId), ...profiles.map(profileId)]);
    for (const [index, claim] of claims.entries()) {
      const stored = found[index];
      this.#claims.set(claim, stored === undefined ? undefined : claimOf(stored));
    }
    for (const [index, ucid] of profiles.entries()) {
      this.#profiles.set(ucid, profileDocumentOf(found[claims.length + index]));
    }
  }
}
