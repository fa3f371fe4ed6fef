import { type ProfileStore, Unavailable } from '@tributary/core';

/** The profiles of a process that must not touch their store before it is known whose it is. */
export interface LateProfiles {
  /** `Unavailable` until it was opened. */
  readonly store: ProfileStore;
  /** Opens the store, once. */
  open(): Promise<void>;
}

export function lateProfiles(openStore: () => Promise<ProfileStore>): LateProfiles {
  let opened: ProfileStore | undefined;
  let opening: Promise<void> | undefined;
  const needed = () => {
    if (opened === undefined) throw new Unavailable('the store of the profiles is not checked yet');
    return opened;
  };
  return {
    store: {
      upsert: async (write) => needed().upsert(write),
      search: async (search) => needed().search(search),
      delete: async (deletion) => needed().delete(deletion),
      unlink: async (unlink) => needed().unlink(unlink),
      split: async (split) => needed().split(split),
      holdsProfiles: async (scope) => needed().holdsProfiles(scope),
      async close() {
        await opening?.catch(() => {}); // told to whoever opened it
        await opened?.close();
      },
    },
    open() {
      opening ??= openStore().then((store) => {
        opened = store;
      });
      return opening;
    },
  };
}
