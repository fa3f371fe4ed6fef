import type { Account, OrganizationMember, WorkspaceMember } from './entities.ts';
import type { Table } from './tables.ts';

export type Member = OrganizationMember | WorkspaceMember;

/** Read access to the members of every organization, or of every workspace: of every scope. */
export interface MembersView<M extends Member> {
  get(scopeId: string, id: string): M | undefined;
  /** Pending ones too, newest first. */
  list(scopeId: string): readonly M[];
  /** The membership of an account in a scope. */
  ofAccount(accountId: string, scopeId: string): M | undefined;
  /** The scopes an account is a member of. */
  scopesOf(accountId: string): readonly string[];
  /** The scope a member is or was of; undefined when there never was one of this id. */
  scopeOf(id: string): string | undefined;
  wasRemoved(scopeId: string, id: string): boolean;
}

/** A person is a member of a scope at most once, by account or, while pending, by e-mail address. */
export class Members<M extends Member> implements MembersView<M> {
  readonly #scopeIn: (member: M) => string;
  readonly #roles: readonly M['role'][];
  /** By scope and id, oldest first. */
  readonly #members = new Map<string, Map<string, M>>();
  /** The id of a member by account and scope. */
  readonly #ofAccount = new Map<string, Map<string, string>>();
  /** The id of a pending one by e-mail address and scope. */
  readonly #pending = new Map<string, Map<string, string>>();
  /** The scope of every member there ever was. */
  readonly #scopes = new Map<string, string>();

  /** `roles` from most to least. */
  constructor(roles: readonly M['role'][], scopeIn: (member: M) => string) {
    this.#roles = roles;
    this.#scopeIn = scopeIn;
  }

  get(scopeId: string, id: string): M | undefined {
    return this.#members.get(scopeId)?.get(id);
  }

  list(scopeId: string): readonly M[] {
    return [...(this.#members.get(scopeId)?.values() ?? [])].reverse();
  }

  ofAccount(accountId: string, scopeId: string): M | undefined {
    const id = this.#ofAccount.get(accountId)?.get(scopeId);
    return id === undefined ? undefined : this.get(scopeId, id);
  }

  scopesOf(accountId: string): readonly string[] {
    return [...(this.#ofAccount.get(accountId)?.keys() ?? [])];
  }

  /** The membership that waits for the owner of an e-mail address. */
  pendingFor(email: string, scopeId: string): M | undefined {
    const id = this.#pending.get(email)?.get(scopeId);
    return id === undefined ? undefined : this.get(scopeId, id);
  }

  /** Every membership that waits for the owner of an e-mail address. */
  pendingOf(email: string): readonly M[] {
    const ids = [...(this.#pending.get(email) ?? [])];
    return ids.flatMap(([scopeId, id]) => this.get(scopeId, id) ?? []);
  }

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
    const [people, person] = this.#placeOf(member);
    inner(people, person).set(scopeId, member.id);
    inner(this.#members, scopeId).set(member.id, member);
    this.#scopes.set(member.id, scopeId);
  }

  remove(member: M): void {
    this.#forget(member);
    const scopeId = this.#scopeIn(member);
    const others = this.#members.get(scopeId);
    others?.delete(member.id);
    if (others?.size === 0) this.#members.delete(scopeId);
  }

  /**
   * Makes the memberships that waited for an account's e-mail address its own. Where it has one already it keeps that,
   * with the greater role of the two: both were given to this person.
   */
  admit({ id, email, updated_at }: Account): void {
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

  /** Everything there is, by name, for `rows.ts` alone. A field that is missing here is missing from every snapshot. */
  tables(): Readonly<Record<string, Table>> {
    return {
      members: this.#members,
      ofAccount: this.#ofAccount,
      pending: this.#pending,
      scopes: this.#scopes,
    };
  }

  #placeOf({ account_id, email }: M): readonly [Map<string, Map<string, string>>, string] {
    return account_id === null ? [this.#pending, email ?? ''] : [this.#ofAccount, account_id];
  }

  #forget(member: M): void {
    const [people, person] = this.#placeOf(member);
    const scopes = people.get(person);
    scopes?.delete(this.#scopeIn(member));
    if (scopes?.size === 0) people.delete(person);
  }
}

function inner<Value>(maps: Map<string, Map<string, Value>>, key: string): Map<string, Value> {
  const known = maps.get(key);
  if (known !== undefined) return known;
  const made = new Map<string, Value>();
  maps.set(key, made);
  return made;
}
