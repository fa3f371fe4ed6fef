import {
  freshProfile,
  type Profile,
  type ProfileDeletionOutcome,
  type ProfileSplitOutcome,
  type ProfileStore,
  type ProfileUnlinkOutcome,
  type ProfileWrite,
  type ProfileWriteOutcome,
} from '@tributary/core';

/** A store that records its writes, is slow, and may refuse or be unavailable. */
export class RecordedProfiles implements ProfileStore {
  readonly writes: ProfileWrite[] = [];
  /** Calls in progress, and their maximum. */
  underWay = 0;
  most = 0;
  /** Answers a write. Default: written. */
  answer: (write: ProfileWrite) => ProfileWriteOutcome | Promise<ProfileWriteOutcome> = (write) => ({
    kind: 'written',
    profile: freshProfile(write, 'a ucid', 0),
    leftOut: [],
  });

  async upsert(write: ProfileWrite): Promise<ProfileWriteOutcome> {
    this.underWay += 1;
    this.most = Math.max(this.most, this.underWay);
    this.writes.push(write);
    try {
      await new Promise((resolve) => setImmediate(resolve));
      return await this.answer(write);
    } finally {
      this.underWay -= 1;
    }
  }

  async search(): Promise<readonly Profile[]> {
    return [];
  }
  async delete(): Promise<ProfileDeletionOutcome> {
    return { deleted: [], notFound: [] };
  }
  async unlink(): Promise<ProfileUnlinkOutcome> {
    return { kind: 'refused', reason: 'no_profile' };
  }
  async split(): Promise<ProfileSplitOutcome> {
    return { kind: 'refused', reason: 'unknown_ucid' };
  }
  async holdsProfiles(): Promise<boolean> {
    return this.writes.length > 0;
  }
  async close(): Promise<void> {}
}
