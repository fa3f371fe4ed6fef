import {
  attributeTree,
  type Identity,
  type JsonObject,
  normaliseIdentity,
  type Profile,
  type ProfileDeletion,
  type ProfileDeletionOutcome,
  type ProfileScope,
  type ProfileSplitOutcome,
  type ProfileStore,
  type ProfileUnlink,
  type ProfileUnlinkOutcome,
  type ProfileWrite,
  type ProfileWriteOutcome,
} from '@tributary/core';

let organizations = 0;

/** An identity of `type:value`, normalised. */
export function identity(text: string): Identity {
  const at = text.indexOf(':');
  const result = normaliseIdentity(text.slice(0, at), text.slice(at + 1));
  if (result.kind === 'fault') throw new Error(`${text}: ${result.fault}`);
  return result.identity;
}

/** The options of a write by an event. */
export const EVENT = { linking: 'keep-people-apart' } as const;

/**
 * Test access to one scope of a store; identities are `type:value`. A fresh scope shares no identities with
 * others.
 */
export class People {
  readonly store: ProfileStore;
  readonly scope: ProfileScope;

  constructor(store: ProfileStore, scope: Partial<ProfileScope> = {}) {
    this.store = store;
    this.scope = { org: (process.pid % 100_000) * 10_000 + ++organizations, region: 'eu', ...scope };
  }

  /** The same people through another store. */
  through(store: ProfileStore): People {
    return new People(store, this.scope);
  }

  in(region: string): People {
    return new People(this.store, { ...this.scope, region });
  }

  upsert(
    identities: readonly string[],
    changes: Partial<Omit<ProfileWrite, 'identities'>> = {},
  ): Promise<ProfileWriteOutcome> {
    return this.store.upsert({
      ...this.scope,
      identities: identities.map(identity),
      attributes: [],
      preferences: [],
      consents: [],
      linking: 'merge',
      ...changes,
    });
  }

  /** A write that must succeed. */
  async write(
    identities: readonly string[],
    changes: Partial<Omit<ProfileWrite, 'identities'>> = {},
  ): Promise<Profile> {
    const outcome = await this.upsert(identities, changes);
    if (outcome.kind === 'refused') throw new Error(`${identities.join(' ')}: ${outcome.reason}`);
    return outcome.profile;
  }

  search(identities: readonly string[], ucids: readonly string[] = []): Promise<readonly Profile[]> {
    const { org, region } = this.scope;
    return this.store.search({ org, regions: [region], identities: identities.map(identity), ucids });
  }

  /** Expects at most one profile. */
  async find(text: string): Promise<Profile | undefined> {
    return only(await this.search([text]));
  }

  async findUcid(ucid: string): Promise<Profile | undefined> {
    return only(await this.search([], [ucid]));
  }

  split(ucid: string): Promise<ProfileSplitOutcome> {
    return this.store.split({ ...this.scope, ucid });
  }

  unlink(identities: readonly string[], changes: Partial<ProfileUnlink> = {}): Promise<ProfileUnlinkOutcome> {
    return this.store.unlink({ ...this.scope, identities: identities.map(identity), ...changes });
  }

  delete(
    identities: readonly string[],
    changes: Partial<ProfileDeletion> = {},
  ): Promise<ProfileDeletionOutcome> {
    const { org, region } = this.scope;
    return this.store.delete({
      org,
      regions: [region],
      identities: identities.map(identity),
      ucids: [],
      ...changes,
    });
  }
}

/** One attribute of the category `d`. */
export function attribute(name: string, value: string | number, ts?: number) {
  return { path: ['d', name], value, ...(ts === undefined ? {} : { ts }) };
}

export function treeOf(profile: Profile | undefined): JsonObject {
  return profile === undefined ? {} : attributeTree(profile.attributes);
}

/** Its identities as `type:value`. */
export function identitiesOf(profile: Profile | undefined): readonly string[] {
  return profile?.identities.map(({ type, value }) => `${type}:${value}`) ?? [];
}

function only(profiles: readonly Profile[]): Profile | undefined {
  if (profiles.length > 1) throw new Error(`${profiles.length} profiles are one person's`);
  return profiles[0];
}
