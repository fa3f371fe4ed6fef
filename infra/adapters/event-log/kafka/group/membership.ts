import { type Backoff, backoffMs, type Logger, messageOf, Unavailable } from '@tributary/core';
import { pause, unlessAborted } from '../../stage-runner/waiting.ts';
import type { KafkaClient } from '../client/client.ts';
import { protocolErrorOf } from '../client/errors.ts';
import {
  decodeAssignment,
  decodeUserData,
  encodeAssignment,
  encodeMemberMetadata,
} from '../client/member-metadata.ts';
import type { TopicPartitions } from '../client/protocol.ts';
import { assign, type Member } from './assignment.ts';
import { StoredPositions } from './stored-positions.ts';

/** Name of the protocol of the group: how its leader shares partitions out. */
const PROTOCOL = 'tributary-sticky';

/** What the member does with its part of the group. Partitions go as `topic/partition`, topics by names in Kafka. */
export interface Assignee {
  /** What is at work here. */
  owned(): readonly string[];
  /** These are to be at work from now on, beside what else is; called again with the same after each join. */
  take(partitions: readonly string[]): void;
  /** Finishes these and resolves once nothing of them is at work. */
  giveBack(partitions: readonly string[]): Promise<void>;
  /** Drops everything at once: others may own it by now. */
  lose(): void;
}

export interface MembershipOptions {
  readonly groupId: string;
  /** The topics of the stage with their partitions. */
  readonly topics: ReadonlyMap<string, number>;
  readonly assignee: Assignee;
  /** For joins alone, which wait at the broker for the other members. */
  readonly joinClient: KafkaClient;
  readonly client: KafkaClient;
  readonly sessionTimeoutMs: number;
  readonly rebalanceTimeoutMs: number;
  readonly heartbeatMs: number;
  readonly backoff: Backoff;
  readonly logger: Logger;
}

/** How long a goodbye may take, ms: who does not get it hears of the end of the session. */
const LEAVE_WITHIN_MS = 2_000;

/** Errors that say: this member is none any more. */
const GONE = new Set(['UNKNOWN_MEMBER_ID', 'ILLEGAL_GENERATION', 'FENCED_INSTANCE_ID', 'MEMBER_ID_REQUIRED']);

/** What a member tells of itself when it joins. */
interface Claim {
  /** The generation in which it claimed this before, or got it. */
  readonly generation: number;
  readonly owned: readonly string[];
}

/**
 * Keeps a place in a consumer group and works on while the group changes. A partition stays at work over a change if
 * the member owned it in the very generation before and gets it again; then nobody else had it in between. What is to
 * move is finished here before anyone else gets it. Who was away for a generation drops everything and begins anew.
 */
export class Membership {
  readonly #options: MembershipOptions;
  readonly #positions: StoredPositions;
  readonly #leaving = new AbortController();
  #memberId = '';
  /** Of the last assignment; undefined while there is none to rely on. */
  #generation: number | undefined;
  /** The last one it brought its claim into, also when it did not hear of its part: nobody else got what it claimed. */
  #claimedIn = -1;
  #ended: Promise<void> | undefined;

  constructor(options: MembershipOptions) {
    this.#options = options;
    this.#positions = new StoredPositions(options.client, options.groupId);
  }

  /** Joins, and joins again for as long as it takes, until `leave()`. */
  start(): void {
    this.#ended ??= this.#run();
  }

  /** Throws `Unavailable` unless the coordinator says that this member belongs to the group's present generation. */
  async confirm(): Promise<void> {
    const generation = this.#generation;
    if (generation === undefined) throw new Unavailable('not a member of the group at present');
    try {
      await this.#heartbeat(generation);
    } catch (thrown) {
      // The next generation is being made: until it is there this one holds.
      if (protocolErrorOf(thrown) !== 'REBALANCE_IN_PROGRESS') throw thrown;
    }
  }

  /** Stores a position, if this member belongs to the present generation. */
  async commitOffset(topic: string, partition: number, offset: number, metadata: string): Promise<void> {
    const generation = this.#generation;
    if (generation === undefined) throw new Unavailable('not a member of the group at present');
    await this.#positions.store(
      { topic, partition, offset, metadata },
      { memberId: this.#memberId, generation },
    );
  }

  /** Leaves the group at once; what was owned must be finished by then. */
  async leave(): Promise<void> {
    this.#leaving.abort();
    const memberId = this.#memberId;
    this.#generation = undefined;
    if (memberId !== '') {
      const { groupId, client, logger } = this.#options;
      const leaving = client.leaveGroup(groupId, memberId);
      await unlessAborted(leaving, AbortSignal.timeout(LEAVE_WITHIN_MS)).catch((thrown: unknown) =>
        logger.warn({ group: groupId, error: messageOf(thrown) }, 'left the group without telling it'),
      );
    }
  }

  /** Resolves when it takes part no more; a join under way ends with its client. */
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
        if (settled) await this.#beat(this.#leaving.signal);
      } catch (thrown) {
        if (this.#leaving.signal.aborted) return;
        this.#judge(thrown);
        // A change under way is joined at once: members come and go as an operator wants it.
        if (protocolErrorOf(thrown) === 'REBALANCE_IN_PROGRESS') {
          logger.info({ group: groupId }, 'the members of the group change; joining it again');
          continue;
        }
        logger.warn(
          { group: groupId, error: messageOf(thrown) },
          'not a member of the group; joining it again',
        );
        await pause(backoffMs(failures++, backoff), this.#leaving.signal);
      }
    }
  }

  #judge(thrown: unknown): void {
    const type = protocolErrorOf(thrown);
    if (type === undefined || !GONE.has(type)) return;
    this.#memberId = type === 'ILLEGAL_GENERATION' ? this.#memberId : '';
    this.#lose(type);
  }

  #lose(why: string): void {
    if (this.#generation === undefined) return;
    const { groupId, assignee, logger } = this.#options;
    logger.warn({ group: groupId, error: `Kafka: ${why}` }, 'lost its part of the group');
    this.#generation = undefined;
    assignee.lose();
  }

  /** Takes part in the making of a generation. False: what was given back is for the others once it joins again. */
  async #join(): Promise<boolean> {
    const { groupId, joinClient, topics, assignee, sessionTimeoutMs, rebalanceTimeoutMs } = this.#options;
    const before = this.#generation === undefined ? undefined : this.#claimedIn;
    const claim: Claim = { generation: before ?? -1, owned: assignee.owned() };
    const request = {
      groupId,
      memberId: this.#memberId,
      sessionTimeout: sessionTimeoutMs,
      rebalanceTimeout: rebalanceTimeoutMs,
      groupProtocols: [{ name: PROTOCOL, metadata: encodeClaim([...topics.keys()], claim) }],
    };
    const joined = await joinClient.joinGroup(request, (memberId) => {
      this.#memberId = memberId;
    });
    const { generationId, memberId, leaderId, members } = joined;
    this.#memberId = memberId;
    if (!followsOn(generationId, before)) this.#lose('missed a generation');
    this.#claimedIn = generationId;
    const groupAssignment = memberId === leaderId ? this.#shareOut(generationId, members) : [];
    const part = await joinClient.syncGroup({ groupId, memberId, generationId }, groupAssignment);
    this.#generation = generationId;
    return this.#apply(namesOf(decodeAssignment(part)));
  }

  /** What the leader of a generation decides for all. */
  #shareOut(
    generation: number,
    members: readonly { readonly memberId: string; readonly memberMetadata: Buffer }[],
  ): readonly { readonly memberId: string; readonly memberAssignment: Buffer }[] {
    const claims = members.map(({ memberId, memberMetadata }): Member => {
      const claim = decodeClaim(memberMetadata);
      // Older claims are not to be relied on; their members drop them by the same rule.
      return { id: memberId, owned: claim.generation === generation - 1 ? claim.owned : [] };
    });
    const parts = assign(this.#options.topics, claims);
    return [...parts].map(([memberId, part]) => ({
      memberId,
      memberAssignment: encodeAssignment(byTopic(part)),
    }));
  }

  /** Works on its part, and gives back what is not in it any more, with heartbeats all the while. */
  async #apply(part: readonly string[]): Promise<boolean> {
    const { assignee, groupId, logger } = this.#options;
    const readable = part.filter((name) => this.#options.topics.has(topicOf(name)));
    const revoked = assignee.owned().filter((name) => !readable.includes(name));
    logger.info(
      { group: groupId, generation: this.#generation, part: readable, revoked },
      'has its part of the group',
    );
    assignee.take(readable);
    if (revoked.length === 0) return true;
    const givenBack = new AbortController();
    const giving = assignee.giveBack(revoked).finally(() => givenBack.abort());
    await this.#beat(givenBack.signal, { overChanges: true });
    await giving;
    return false;
  }

  /**
   * Heartbeats until the group changes, which it throws. `overChanges`: goes on over a change; to join before all is
   * given back would be to claim it again.
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
        } else if (type !== undefined && GONE.has(type)) {
          throw thrown;
        } else if (performance.now() - heardAt > sessionTimeoutMs) {
          // By now the coordinator may have given everything away.
          this.#lose('no heartbeat was answered');
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

/** Whether who claimed in generation `before` owns on in this one: nobody can have had its part in between. */
function followsOn(generation: number, before: number | undefined): boolean {
  return before === undefined || generation === before || generation === before + 1;
}

function topicOf(name: string): string {
  return name.slice(0, name.lastIndexOf('/'));
}

function encodeClaim(topics: readonly string[], claim: Claim): Buffer {
  return encodeMemberMetadata(topics, JSON.stringify(claim));
}

function decodeClaim(memberMetadata: Buffer): Claim {
  const text = decodeUserData(memberMetadata);
  return text === '' ? { generation: -1, owned: [] } : (JSON.parse(text) as Claim);
}

function byTopic(part: readonly string[]): readonly TopicPartitions[] {
  return [...Map.groupBy(part, topicOf)].map(([topic, names]) => ({
    topic,
    partitions: names.map((name) => Number(name.slice(topic.length + 1))),
  }));
}

function namesOf(part: readonly TopicPartitions[]): readonly string[] {
  return part.flatMap(({ topic, partitions }) => partitions.map((partition) => `${topic}/${partition}`));
}
