import { type Backoff, backoffMs, type Logger, messageOf, Unavailable } from '@tributary/core';
import { GroupCommit } from '../../../group-commit/group-commit.ts';
import { pause, unlessAborted } from '../../stage-runner/work.ts';
import type { KafkaClient } from '../client/client.ts';
import {
  failOn,
  type GroupMember,
  type JoinAnswer,
  type MemberAssignment,
  type PositionToStore,
  protocolErrorOf,
  type TopicPartitions,
  translateKafkaError,
} from '../client/protocol.ts';

/** The name of the group's assignment protocol. */
const PROTOCOL = 'tributary-sticky';

/** The partitions at work in this process, as `topic/partition`; topics have their names in Kafka. */
export interface Assignee {
  owned(): readonly string[];
  /** Starts these beside those at work; called with all assigned partitions after each join. */
  take(partitions: readonly string[]): void;
  /** Finishes these, which go to others; resolves once none of them is at work. */
  revoke(partitions: readonly string[]): Promise<void>;
  /** Drops all partitions at once: others may own them. */
  lost(): void;
}

interface MembershipOptions {
  readonly groupId: string;
  /** The topics of the stage with their partitions at present. */
  readonly topics: () => ReadonlyMap<string, number>;
  readonly assignee: Assignee;
  /** For joins alone, as they wait at the broker for the other members. */
  readonly joinClient: KafkaClient;
  readonly client: KafkaClient;
  readonly sessionTimeoutMs: number;
  readonly rebalanceTimeoutMs: number;
  readonly heartbeatMs: number;
  readonly backoff: Backoff;
  readonly logger: Logger;
}

/** How long leaving may take, ms; without it the group continues when the session ends. */
const LEAVE_WITHIN_MS = 2_000;

/** Errors of a member that is not in the group's present generation. */
const NOT_A_MEMBER = new Set([
  'UNKNOWN_MEMBER_ID',
  'ILLEGAL_GENERATION',
  'FENCED_INSTANCE_ID',
  'MEMBER_ID_REQUIRED',
]);

/** The metadata that a member sends to the leader of the generation when it joins. As JSON. */
interface JoinMetadata {
  /** The generation in which the member last claimed these partitions, or got them. */
  readonly generation: number;
  readonly owned: readonly string[];
}

/**
 * Keeps this process in a consumer group while its partitions continue to work.
 *
 * A partition stays at work over a rebalance if the member owned it in the generation before and gets it again: then no
 * other member had it in between. A partition that moves is finished here before another member gets it: the leader
 * leaves it out of all assignments until its owner, which sees that, has finished it and joins again without it. A member
 * that missed a generation drops all its partitions.
 */
export class Membership {
  readonly groupId: string;
  readonly #options: MembershipOptions;
  readonly #positions: StoredPositions;
  readonly #leaving = new AbortController();
  #memberId = '';
  /** The generation that the member commits in; undefined while it is in none. */
  #generation: number | undefined;
  /**
   * The last generation that it joined with its join metadata, even without an assignment: no other member got its
   * partitions.
   */
  #joinedIn = -1;
  #ended: Promise<void> | undefined;
  /** The partitions of the last join, and the signal that others have to be assigned. */
  #joinedWith = new Map<string, number>();
  #regrouping = new AbortController();

  constructor(options: MembershipOptions) {
    this.groupId = options.groupId;
    this.#options = options;
    this.#positions = new StoredPositions(options.client);
  }

  /** Joins, and rejoins after each rebalance and failure, until `leave()`. */
  start(): void {
    this.#ended ??= this.#run();
  }

  /** The member in the group's present generation, as far as this process knows. Throws `Unavailable` between two. */
  get member(): GroupMember {
    const generationId = this.#generation;
    if (generationId === undefined) throw new Unavailable('not a member of the group at present');
    return { groupId: this.groupId, memberId: this.#memberId, generationId };
  }

  /** Rejects unless the coordinator has this member in the group's present generation. */
  async confirm(): Promise<void> {
    await this.#options.client.confirmMember(this.member);
  }

  /** Stores a position; the coordinator refuses it unless this member belongs to the present generation. */
  async commitOffset(topic: string, partition: number, offset: number, metadata: string): Promise<void> {
    await this.#positions.store({ topic, partition, offset, metadata }, this.member);
  }

  /** Joins again where the topics have other partitions than at the last join; all owned partitions continue meanwhile. */
  regroup(): void {
    const topics = this.#options.topics();
    if ([...topics].some(([name, count]) => this.#joinedWith.get(name) !== count)) this.#regrouping.abort();
  }

  /** Leaves the group at once; all owned partitions must be finished. */
  async leave(): Promise<void> {
    this.#leaving.abort();
    const memberId = this.#memberId;
    this.#generation = undefined;
    if (memberId !== '') {
      const { groupId, client, logger } = this.#options;
      const leaving = client.leaveGroup(groupId, memberId);
      await unlessAborted(leaving, AbortSignal.timeout(LEAVE_WITHIN_MS)).catch((thrown: unknown) =>
        logger.warn(
          { group: groupId, error: messageOf(thrown) },
          'could not leave the group; its partitions move when the session ends',
        ),
      );
    }
  }

  /** Resolves when it has stopped joining; a join in progress ends with its client. */
  async ended(): Promise<void> {
    await this.#ended;
  }

  async #run(): Promise<void> {
    const { groupId, backoff, logger } = this.#options;
    let failures = 0;
    while (!this.#leaving.signal.aborted) {
      try {
        const settled = await this.#join();
        failures = 0;
        if (settled) await this.#beat(AbortSignal.any([this.#leaving.signal, this.#regrouping.signal]));
      } catch (thrown) {
        if (this.#leaving.signal.aborted) return;
        this.#lostIfNotAMember(thrown);
        // A rebalance is joined at once: members come and go as an operator wants it.
        if (protocolErrorOf(thrown) === 'REBALANCE_IN_PROGRESS') {
          logger.info({ group: groupId }, 'the group rebalances; rejoining');
          continue;
        }
        logger.warn({ group: groupId, error: messageOf(thrown) }, 'not a member of the group; rejoining');
        await pause(backoffMs(failures++, backoff), this.#leaving.signal);
      }
    }
  }

  #lostIfNotAMember(thrown: unknown): void {
    const type = protocolErrorOf(thrown);
    if (type === undefined || !NOT_A_MEMBER.has(type)) return;
    this.#memberId = type === 'ILLEGAL_GENERATION' ? this.#memberId : '';
    this.#lost(type);
  }

  #lost(reason: string): void {
    if (this.#generation === undefined) return;
    const { groupId, assignee, logger } = this.#options;
    logger.warn(
      { group: groupId, error: `Kafka: ${reason}` },
      'lost its partitions: no longer a member of this generation of the group',
    );
    this.#generation = undefined;
    assignee.lost();
  }

  /** Joins the next generation. False where partitions were revoked: others get them after one more join. */
  async #join(): Promise<boolean> {
    const { groupId, joinClient, assignee, sessionTimeoutMs, rebalanceTimeoutMs } = this.#options;
    const topics = this.#options.topics();
    this.#joinedWith = new Map(topics);
    this.#regrouping = new AbortController();
    const before = this.#generation === undefined ? undefined : this.#joinedIn;
    const metadata: JoinMetadata = { generation: before ?? -1, owned: assignee.owned() };
    const request = {
      groupId,
      memberId: this.#memberId,
      sessionTimeout: sessionTimeoutMs,
      rebalanceTimeout: rebalanceTimeoutMs,
      protocol: PROTOCOL,
      topics: [...topics.keys()],
      userData: JSON.stringify(metadata),
    };
    const joined = await joinClient.joinGroup(request, (memberId) => {
      this.#memberId = memberId;
    });
    const { generationId, memberId, leaderId } = joined;
    this.#memberId = memberId;
    if (!followsOn(generationId, before)) this.#lost('missed a generation');
    this.#joinedIn = generationId;
    // The partitions that continue commit in the new generation from now on: the coordinator refuses the one before.
    if (this.#generation !== undefined) this.#generation = generationId;
    const assignments = memberId === leaderId ? this.#assignAll(joined) : [];
    const assigned = await joinClient.syncGroup({ groupId, memberId, generationId }, assignments);
    this.#generation = generationId;
    return this.#apply(namesOf(assigned));
  }

  /** The assignments of all members, by the leader of the generation. */
  #assignAll({ generationId, members }: JoinAnswer): readonly MemberAssignment[] {
    const claimants = members.map(({ memberId, userData }): Member => {
      const metadata = joinMetadataOf(userData);
      // Join metadata of older generations is not reliable; its members drop the partitions by the same rule.
      return { id: memberId, owned: metadata.generation === generationId - 1 ? metadata.owned : [] };
    });
    return [...assign(this.#options.topics(), claimants)].map(([memberId, names]) => ({
      memberId,
      partitions: byTopic(names),
    }));
  }

  /** Starts the assigned partitions and revokes the others that it owns, sending heartbeats meanwhile. */
  async #apply(assigned: readonly string[]): Promise<boolean> {
    const { assignee, groupId, logger } = this.#options;
    const readable = assigned.filter((name) => this.#joinedWith.has(topicOf(name)));
    const revoked = assignee.owned().filter((name) => !readable.includes(name));
    logger.info(
      { group: groupId, generation: this.#generation, assigned: readable, revoked },
      'partitions assigned',
    );
    assignee.take(readable);
    if (revoked.length === 0) return true;
    const areRevoked = new AbortController();
    const revoking = assignee.revoke(revoked).finally(() => areRevoked.abort());
    await this.#beat(areRevoked.signal, { overChanges: true });
    await revoking;
    return false;
  }

  /**
   * Sends heartbeats until the group rebalances, which it throws. `overChanges`: continues over a rebalance; a join
   * before all partitions are revoked would claim them again.
   */
  async #beat(until: AbortSignal, { overChanges = false } = {}): Promise<void> {
    const { heartbeatMs, sessionTimeoutMs } = this.#options;
    let heardAt = performance.now();
    for (;;) {
      await pause(heartbeatMs, until);
      const generation = this.#generation;
      if (until.aborted || generation === undefined) return;
      try {
        await this.#heartbeat(generation);
        heardAt = performance.now();
      } catch (thrown) {
        const type = protocolErrorOf(thrown);
        if (type === 'REBALANCE_IN_PROGRESS') {
          if (!overChanges) throw thrown;
          heardAt = performance.now();
        } else if (type !== undefined && NOT_A_MEMBER.has(type)) {
          throw thrown;
        } else if (performance.now() - heardAt > sessionTimeoutMs) {
          // By now the coordinator may have assigned the partitions to others.
          this.#lost('no heartbeat was answered');
          throw thrown;
        }
      }
    }
  }

  async #heartbeat(generation: number): Promise<void> {
    const { groupId, client } = this.#options;
    await client.heartbeat({ groupId, memberId: this.#memberId, generationId: generation });
  }
}

/** Whether a member of generation `before` still owns its partitions: no other member can have had them in between. */
function followsOn(generation: number, before: number | undefined): boolean {
  return before === undefined || generation === before || generation === before + 1;
}

function topicOf(name: string): string {
  return name.slice(0, name.lastIndexOf('/'));
}

function joinMetadataOf(userData: string): JoinMetadata {
  return userData === '' ? { generation: -1, owned: [] } : (JSON.parse(userData) as JoinMetadata);
}

function byTopic(names: readonly string[]): readonly TopicPartitions[] {
  return [...Map.groupBy(names, topicOf)].map(([topic, of]) => ({
    topic,
    partitions: of.map((name) => Number(name.slice(topic.length + 1))),
  }));
}

function namesOf(assigned: readonly TopicPartitions[]): readonly string[] {
  return assigned.flatMap(({ topic, partitions }) => partitions.map((partition) => `${topic}/${partition}`));
}

/** A member at the time of a join. */
export interface Member {
  readonly id: string;
  /** The partitions that it reliably owns, as `topic/partition`. */
  readonly owned: readonly string[];
}

/**
 * The partitions of each member, as `topic/partition`, by member id. Evenly per topic and over all topics; a member keeps
 * its partitions as far as that goes. A partition that is to move is assigned to no member until its owner joins again
 * without it.
 */
export function assign(
  topics: ReadonlyMap<string, number>,
  members: readonly Member[],
): ReadonlyMap<string, readonly string[]> {
  const ids = members.map(({ id }) => id).sort();
  const owners = ownersOf(members);
  const target = new Map(ids.map((id) => [id, [] as string[]]));
  for (const [topic, partitions] of [...topics].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const names = Array.from({ length: partitions }, (_, partition) => `${topic}/${partition}`);
    for (const [id, part] of shareOut(names, ids, owners, target)) target.get(id)?.push(...part);
  }
  return new Map(
    [...target].map(([id, part]) => [id, part.filter((name) => (owners.get(name) ?? id) === id)]),
  );
}

/** The owner of each partition that one member alone claims. */
function ownersOf(members: readonly Member[]): ReadonlyMap<string, string> {
  const owners = new Map<string, string>();
  const contested = new Set<string>();
  for (const { id, owned } of members) {
    for (const name of owned) {
      if (owners.has(name)) contested.add(name);
      owners.set(name, id);
    }
  }
  for (const name of contested) owners.delete(name);
  return owners;
}

/** The partitions of one topic: as many for each member, the odd ones for those with the fewest so far. */
function shareOut(
  names: readonly string[],
  ids: readonly string[],
  owners: ReadonlyMap<string, string>,
  soFar: ReadonlyMap<string, readonly string[]>,
): ReadonlyMap<string, readonly string[]> {
  const owns = (id: string) => names.filter((name) => owners.get(name) === id);
  const least = Math.floor(names.length / ids.length);
  const odd = names.length % ids.length;
  const byNeed = [...ids].sort((a, b) => {
    const [haveA, haveB] = [soFar.get(a)?.length ?? 0, soFar.get(b)?.length ?? 0];
    return haveA - haveB || owns(b).length - owns(a).length;
  });
  const parts = new Map<string, string[]>();
  const free = new Set(names);
  const quotaOf = new Map(byNeed.map((id, i) => [id, least + (i < odd ? 1 : 0)]));
  for (const [id, quota] of quotaOf) {
    const kept = owns(id).slice(0, quota);
    for (const name of kept) free.delete(name);
    parts.set(id, kept);
  }
  for (const [id, quota] of quotaOf) {
    const part = parts.get(id) ?? [];
    for (const name of free) {
      if (part.length >= quota) break;
      part.push(name);
      free.delete(name);
    }
  }
  return parts;
}

interface ToStore {
  readonly position: PositionToStore;
  readonly by: GroupMember;
}

/** The error of a position that is not in the answer. */
const UNKNOWN_SERVER_ERROR = -1;

/**
 * Stores positions of a group outside of transactions. Positions that come while a request is in flight share the next one:
 * a coordinator takes some milliseconds for a request, however many partitions it names, and one request at a time.
 */
export class StoredPositions {
  readonly #client: Pick<KafkaClient, 'commitOffsets' | 'invalidateMetadata'>;
  readonly #requests = new GroupCommit<ToStore, undefined>({
    commit: (group) => this.#storeAll(group),
    maxInFlight: 1,
    maxUnconfirmedBytes: Number.POSITIVE_INFINITY,
    maxGroupBytes: Number.POSITIVE_INFINITY,
  });

  constructor(client: Pick<KafkaClient, 'commitOffsets' | 'invalidateMetadata'>) {
    this.#client = client;
  }

  /**
   * Resolves when the position is stored. It is sent with the membership given, also if that ended while it was queued: then
   * the coordinator refuses it. After a rejection it is unknown whether the position was stored.
   */
  store(position: PositionToStore, by: GroupMember): Promise<undefined> {
    return this.#requests.add({ position, by }, 0);
  }

  async #storeAll(group: readonly ToStore[]): Promise<readonly (Error | undefined)[]> {
    const failures = new Map<ToStore, Error>();
    const byMember = Map.groupBy(group, ({ by }) => `${by.generationId} ${by.memberId}`);
    for (const together of byMember.values()) await this.#request(together, failures);
    return group.map((request) => failures.get(request));
  }

  async #request(together: readonly ToStore[], failures: Map<ToStore, Error>): Promise<void> {
    const [first] = together;
    if (first === undefined) return;
    const positions = together.map(({ position }) => position);
    const answer = await this.#client.commitOffsets(first.by, positions).catch((thrown: unknown) => {
      for (const request of together) failures.set(request, translateKafkaError(thrown, 'storing positions'));
    });
    if (answer === undefined) return;
    for (const request of together) {
      const name = `${request.position.topic}/${request.position.partition}`;
      try {
        failOn(answer.get(name) ?? UNKNOWN_SERVER_ERROR);
      } catch (thrown) {
        this.#client.invalidateMetadata();
        failures.set(request, translateKafkaError(thrown, `storing the position of ${name}`));
      }
    }
  }
}
