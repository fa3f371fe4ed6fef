import { getOrMake } from '../../primitives/get-or-make.ts';
import type { ClientKey } from '../entities.ts';
import { type CountedListing, GroupedOrder, type Table } from './creation-order.ts';

export type ClientKeysView = Pick<ClientKeys, 'get' | 'list' | 'listing' | 'organizationOf'>;

/** The client keys of all organizations, revoked ones included. */
export class ClientKeys {
  /** Keys by organization and id, oldest first. */
  readonly #keys = new Map<string, Map<string, ClientKey>>();
  readonly #organizations = new Map<string, string>();
  readonly #hashes = new Map<string, string>();
  /**
   * Creation orders by organization. Built at the first read, because rows do not hold them, then kept up to date.
   */
  readonly #orders = new Map<string, GroupedOrder<ClientKey>>();

  get(organizationId: string, id: string): ClientKey | undefined {
    return this.#keys.get(organizationId)?.get(id);
  }

  /** All keys, newest first. */
  list(organizationId: string): readonly ClientKey[] {
    return [...(this.#keys.get(organizationId)?.values() ?? [])].reverse();
  }

  /** Keys in creation order, optionally of one status. */
  listing(organizationId: string, status?: ClientKey['status']): CountedListing<ClientKey> {
    const keys = this.#keys.get(organizationId)?.values();
    const order = getOrMake(
      this.#orders,
      organizationId,
      () => new GroupedOrder<ClientKey>((key) => key.status, keys),
    );
    return status === undefined ? order.all : order.group(status);
  }

  organizationOf(id: string): string | undefined {
    return this.#organizations.get(id);
  }

  byHash(hash: string): ClientKey | undefined {
    const id = this.#hashes.get(hash) ?? '';
    return this.get(this.organizationOf(id) ?? '', id);
  }

  put(key: ClientKey): void {
    const keys = this.#keys.get(key.organization_id) ?? new Map<string, ClientKey>();
    this.#orders.get(key.organization_id)?.put(key, keys.get(key.id));
    this.#keys.set(key.organization_id, keys.set(key.id, key));
    this.#organizations.set(key.id, key.organization_id);
    this.#hashes.set(key.hash, key.id);
  }

  /**
   * All data by name, for `core/catalog/rows.ts` only. A field that is missing here is missing from every snapshot.
   */
  tables(): Readonly<Record<string, Table>> {
    return { keys: this.#keys, organizations: this.#organizations, hashes: this.#hashes };
  }
}
