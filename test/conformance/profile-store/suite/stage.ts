import type { ProfileStore } from '@tributary/core';
import { onTestFinished } from 'vitest';
import { type Opening, type ProfileInstallation, type ProfileStoreHarness, Published } from './harness.ts';
import { People } from './people.ts';

/**
 * The environment of the tests: one installation with two stores open; each test uses people of a new
 * organization.
 */
export class Stage {
  readonly harness: ProfileStoreHarness;
  readonly published = new Published();
  #installation: ProfileInstallation | undefined;
  #stores: readonly ProfileStore[] = [];

  constructor(harness: ProfileStoreHarness) {
    this.harness = harness;
  }

  async set(retentionMs: number): Promise<void> {
    const installation = await this.harness.create(retentionMs);
    this.#installation = installation;
    const open = () => this.harness.open(installation.settings, { publish: this.published.publish });
    this.#stores = [await open(), await open()];
  }

  async strike(): Promise<void> {
    await Promise.all(this.#stores.map((store) => store.close()));
    await this.#installation?.dispose();
  }

  get settings(): string {
    if (this.#installation === undefined) throw new Error('the stage is not set');
    return this.#installation.settings;
  }

  /** People in a fresh scope, through the first store. */
  people(): People {
    return new People(this.#store(0));
  }

  /** The second store of the same installation. */
  other(): ProfileStore {
    return this.#store(1);
  }

  /** An installation for one test. */
  async installation(retentionMs: number): Promise<Installation> {
    const made = await this.harness.create(retentionMs);
    const installation = new Installation(this.harness, made.settings);
    onTestFinished(async () => {
      await installation.closeAll();
      await made.dispose();
    });
    return installation;
  }

  #store(at: number): ProfileStore {
    const store = this.#stores[at];
    if (store === undefined) throw new Error('the stage is not set');
    return store;
  }
}

export class Installation {
  readonly settings: string;
  readonly #harness: ProfileStoreHarness;
  readonly #opened: ProfileStore[] = [];

  constructor(harness: ProfileStoreHarness, settings: string) {
    this.#harness = harness;
    this.settings = settings;
  }

  async open(opening: Opening): Promise<ProfileStore> {
    const store = await this.#harness.open(this.settings, opening);
    this.#opened.push(store);
    return store;
  }

  async closeAll(): Promise<void> {
    await Promise.all(this.#opened.map((store) => store.close()));
  }
}
