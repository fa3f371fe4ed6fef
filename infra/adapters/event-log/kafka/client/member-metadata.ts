import assignerProtocol from 'kafkajs/src/consumer/assignerProtocol.js';
import type { TopicPartitions } from './protocol.ts';

const { MemberAssignment, MemberMetadata } = assignerProtocol;
const VERSION = 1;

/** What a member says when it joins a group: the topics it reads, and data for the leader of the generation. */
export function encodeMemberMetadata(topics: readonly string[], userData: string): Buffer {
  return MemberMetadata.encode({ version: VERSION, topics, userData: Buffer.from(userData) });
}

/** The data for the leader; empty where the member sent none. */
export function decodeUserData(memberMetadata: Buffer): string {
  return MemberMetadata.decode(memberMetadata).userData?.toString('utf8') ?? '';
}

/** The partitions that a member gets in a generation. */
export function encodeAssignment(part: readonly TopicPartitions[]): Buffer {
  const assignment = Object.fromEntries(part.map(({ topic, partitions }) => [topic, partitions]));
  return MemberAssignment.encode({ version: VERSION, assignment });
}

export function decodeAssignment(memberAssignment: Buffer): readonly TopicPartitions[] {
  const decoded = memberAssignment.length === 0 ? null : MemberAssignment.decode(memberAssignment);
  return Object.entries(decoded?.assignment ?? {}).map(([topic, partitions]) => ({ topic, partitions }));
}
