import { getOrMake } from '../../primitives/get-or-make.ts';
import type { Account, OrganizationMember, WorkspaceMember } from '../entities.ts';
import {
  type CountedListing,
  type Created,
  CreationOrder,
  GroupedOrder,
  type Listing,
  type Table,
} from './creation-order.ts';

export type Member = OrganizationMember | WorkspaceMember;

/** Read access to members. The scope is an organization or a workspace. */
export type MembersView<M extends Member> = Pick<
  Members<M>,
  | 'get'
  | 'list'
  | 'listing'
  | 'ofAccount'
  | 'pendingFor'
  | 'scopesOf'
  | 'scopeListing'
  | 'scopeOf'
  | 'wasRemoved'
>;

/**
 * Members of all scopes of one kind. An account, or while pending an e-mail address, is a member of a scope at most
 * once.
 */
export class Members<M extends Member> {
  readonly #scopeIn: (member: M) => string;
  readonly #roles: readonly M['role'][];
  /** Members by scope and id, oldest first. */
  readonly #members = new Map<string, Map<string, M>>();
  readonly #ofAccount = new Map<string, Map<string, string>>();
  /** Ids of pending members by e-mail address and scope. */
  readonly #pending = new Map<string, Map<string, string>>();
  /** Scopes by member id, removed members included. */
  readonly #scopes = new Map<string, string>();

  /** Creation orders by scope. Built at the first read, because rows do not hold them, then kept up to date. */
  readonly #orders = new Map<string, GroupedOrder<M>>();
  /** Scopes by account in creation order; built in the same way. */
  readonly #scopeOrders = new Map<string, CreationOrder<Created>>();
  readonly #scopeNamed: (id: string) => Created | undefined;

  /** `roles`: from the highest to the lowest. */
  constructor(
    roles: readonly M['role'][],
    scopeIn: (member: M) => string,
    scopeNamed: (id: string) => Created | undefined,
  ) {
    this.#roles = roles;
    this.#scopeIn = scopeIn;
    this.#scopeNamed = scopeNamed;
  }

  get(scopeId: string, id: string): M | undefined {
    return this.#members.get(scopeId)?.get(id);
  }

  /** All members, pending ones included, newest first. */
  list(scopeId: string): readonly M[] {
    return [...(this.#members.get(scopeId)?.values() ?? [])].reverse();
  }

  /** All members of a scope in creation order, or one group: `pending`, or active ones with a role. */
  listing(scopeId: string, group?: string): CountedListing<M> {
    const members = () => this.#members.get(scopeId)?.values();
    const order = getOrMake(this.#orders, scopeId, () => new GroupedOrder<M>(groupOf, members()));
    return group === undefined ? order.all : order.group(group);
  }

  ofAccount(accountId: string, scopeId: string): M | undefined {
    const id = this.#ofAccount.get(accountId)?.get(scopeId);
    return id === undefined ? undefined : this.get(scopeId, id);
  }

  scopesOf(accountId: string): readonly string[] {
    return [...(this.#ofAccount.get(accountId)?.keys() ?? [])];
  }

  /** The same scopes in creation order. */
  scopeListing(accountId: string): Listing<Created> {
    const scopes = () => this.scopesOf(accountId).flatMap((id) => this.#scopeNamed(id) ?? []);
    return getOrMake(this.#scopeOrders, accountId, () => new CreationOrder(scopes()));
  }

  pendingFor(email: string, scopeId: string): M | undefined {
    const id = this.#pending.get(email)?.get(scopeId);
    return id === undefined ? undefined : this.get(scopeId, id);
  }

  pendingOf(email: string): readonly M[] {
    const ids = [...(this.#pending.get(email) ?? [])];
    return ids.flatMap(([scopeId, id]) => this.get(scopeId, id) ?? []);
  }

  /** The scope that a member belongs or belonged to; undefined for an unknown id. */
  scopeOf(id: string): string | undefined {
    return this.#scopes.get(id);
  }

  wasRemoved(scopeId: string, id: string): boolean {
    return this.#scopes.get(id) === scopeId && this.get(scopeId, id) === undefined;
  }

  put(member: M): void {
    const scopeId = this.#scopeIn(member);
    const before = this.get(scopeId, member.id);
    if (before !== undefined) this.#forget(before);
    const [people, person] = this.#scopesAndPersonOf(member);
    inner(people, person).set(scopeId, member.id);
    inner(this.#members, scopeId).set(member.id, member);
    this.#scopes.set(member.id, scopeId);
    this.#orders.get(scopeId)?.put(member, before);
    const scope = this.#scopeNamed(scopeId);
    if (member.account_id !== null && scope !== undefined)
      this.#scopeOrders.get(member.account_id)?.put(scope);
  }

  remove(member: M): void {
    this.#forget(member);
    const scopeId = this.#scopeIn(member);
    const others = this.#members.get(scopeId);
    others?.delete(member.id);
    this.#orders.get(scopeId)?.remove(member);
    if (others?.size !== 0) return;
    this.#members.delete(scopeId);
    this.#orders.delete(scopeId);
  }

  /**
   * Assigns the memberships that are pending for the account's e-mail address to the account. Where the account is a
   * member already, the membership keeps the higher of the two roles.
   */
  activatePending({ id, email, updated_at }: Account): void {
    for (const [scopeId, memberId] of [...(this.#pending.get(email ?? '') ?? [])]) {
      const pending = this.get(scopeId, memberId);
      if (pending === undefined) continue;
      const known = this.ofAccount(id, scopeId);
      if (known === undefined) {
        this.put({ ...pending, account_id: id, version: pending.version + 1, updated_at });
        continue;
      }
      this.remove(pending);
      const role = this.#roles.find((each) => each === known.role || each === pending.role);
      if (role !== known.role) this.put({ ...known, role, version: known.version + 1, updated_at } as M);
    }
  }

  /**
   * All data by name, for `core/catalog/rows.ts` only. A field that is missing here is missing from every snapshot.
   */
  tables(): Readonly<Record<string, Table>> {
    return {
      members: this.#members,
      ofAccount: this.#ofAccount,
      pending: this.#pending,
      scopes: this.#scopes,
    };
  }

  #scopesAndPersonOf({ account_id, email }: M): readonly [Map<string, Map<string, string>>, string] {
    return account_id === null ? [this.#pending, email ?? ''] : [this.#ofAccount, account_id];
  }

  #forget(member: M): void {
    const [people, person] = this.#scopesAndPersonOf(member);
    const scopes = people.get(person);
    const scopeId = this.#scopeIn(member);
    scopes?.delete(scopeId);
    if (scopes?.size === 0) people.delete(person);
    const scope = this.#scopeNamed(scopeId);
    if (scope !== undefined) this.#scopeOrders.get(person)?.remove(scope);
  }
}

function groupOf({ account_id, role }: Member): string {
  return account_id === null ? 'pending' : role;
}

function inner<Value>(maps: Map<string, Map<string, Value>>, key: string): Map<string, Value> {
  return getOrMake(maps, key, () => new Map<string, Value>());
}
