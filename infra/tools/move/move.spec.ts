import { describe, expect, it } from 'vitest';
import { unfinishedMark } from '../../runtime/process/data-folder.ts';
import type { MoveFacts } from './copies.ts';
import { engineStateOf, notesAbout, obstaclesTo } from './move.ts';

const ID = '0192f0c1-7c7b-7d53-8a55-1d0c5f1e2a01';
const EMPTY: MoveFacts['engines'] = {
  redisMark: undefined,
  profilesMark: undefined,
  unfinishedMark: unfinishedMark(ID, 'state'),
  topicsWithRecords: [],
  holdsCounts: false,
  holdsProfiles: false,
  holdsHistory: false,
  runningStages: [],
  otherPartitions: [],
  missingTopics: [],
};
const SECRETS = { sealed: 0, unreadable: [], hasKeyFile: false, hasKeys: true, devIssuer: false };

type Changes = Partial<MoveFacts>;
type Engines = Partial<MoveFacts['engines']>;

function facts(changes: Changes = {}, engines: Engines = {}): MoveFacts {
  return {
    folder: '/data',
    prefix: 'p.',
    installation: ID,
    layoutFaults: [],
    undeclaredTopics: [],
    grownTopics: [],
    foreignStores: [],
    unread: [],
    forgottenDeletions: { count: 0, until: 0 },
    secrets: SECRETS,
    fileDestinations: [],
    losesDevIssuer: false,
    engines: { ...EMPTY, ...engines },
    ...changes,
  };
}

describe('the state of the engines', () => {
  it.each<[string, Engines]>([
    ['empty', {}],
    ['unfinished', { redisMark: EMPTY.unfinishedMark, topicsWithRecords: ['events.production'] }],
    // Killed between the marks of a finished move.
    ['unfinished', { redisMark: EMPTY.unfinishedMark, profilesMark: ID }],
    ['finished', { redisMark: ID, profilesMark: ID }],
    ['taken', { redisMark: 'another' }],
    ['taken', { profilesMark: EMPTY.unfinishedMark }],
    ['taken', { topicsWithRecords: ['catalog'] }],
    ['taken', { holdsCounts: true }],
    ['taken', { holdsProfiles: true }],
    ['taken', { holdsHistory: true }],
  ])('is %s with %o', (state, engines) => {
    expect(engineStateOf(facts({}, engines))).toBe(state);
  });

  it('is never of a folder without an installation', () => {
    const engines = { redisMark: undefined, unfinishedMark: unfinishedMark('', 'state') };
    expect(engineStateOf(facts({ installation: undefined }, engines))).toBe('empty');
  });
});

describe('obstacles', () => {
  it('are empty for a folder that is ready and empty engines, and for an unfinished move', () => {
    expect(obstaclesTo(facts())).toEqual([]);
    expect(obstaclesTo(facts({}, { redisMark: EMPTY.unfinishedMark, holdsCounts: true }))).toEqual([]);
  });

  it.each<[string, Changes, Engines]>([
    ['the installation has no id', { installation: undefined }, {}],
    [
      'topic deliveries has 4 partitions, not 8',
      { layoutFaults: ['topic deliveries has 4 partitions, not 8'] },
      {},
    ],
    ['imported from a cluster', { grownTopics: ['events.accepted'] }, {}],
    ['the folder /data/profiles are of another', { foreignStores: ['the folder /data/profiles'] }, {}],
    ['stage route has not read', { unread: [{ stage: 'route', topic: 'events.accepted' }] }, {}],
    ['pass --forget-deletions', { forgottenDeletions: { count: 2, until: 0 } }, {}],
    [
      'set TRIBUTARY_SECRET_KEYS to the text in that file',
      { secrets: { ...SECRETS, sealed: 1, hasKeys: false, hasKeyFile: true } },
      {},
    ],
    [
      'no key of TRIBUTARY_SECRET_KEYS opens the secrets of hook',
      { secrets: { ...SECRETS, sealed: 1, unreadable: ['hook'] } },
      {},
    ],
    [
      'they hold the mark of another, records in mail, counts',
      {},
      { redisMark: 'another', topicsWithRecords: ['mail'], holdsCounts: true },
    ],
    [
      'a process has run on /data since the move was begun',
      {},
      { redisMark: unfinishedMark(ID, 'another state') },
    ],
    ['consumer groups of count have members', {}, { runningStages: ['count'] }],
    ['has 8 partitions', {}, { otherPartitions: ['the topic p.mail has 8 partitions'] }],
    ['TRIBUTARY_CREATE_TOPICS is false', {}, { missingTopics: ['mail'] }],
  ])('say that %s', (text, changes, engines) => {
    const obstacles = obstaclesTo(facts(changes, engines));
    expect(obstacles).toHaveLength(1);
    expect(obstacles[0]).toContain(text);
  });

  it('are no keys of the data folder where the development issuer is on', () => {
    const secrets = { ...SECRETS, sealed: 3, hasKeys: false, hasKeyFile: true, devIssuer: true };
    expect(obstaclesTo(facts({ secrets }))).toEqual([]);
    expect(notesAbout(facts({ secrets })).join()).toContain(
      'processes with another data folder cannot open them',
    );
  });
});

it('notes what stays behind', () => {
  const notes = notesAbout(
    facts({ fileDestinations: ['lines'], undeclaredTopics: ['old'], losesDevIssuer: true }),
  ).join('\n');
  expect(notes).toContain('lines append to files below /data/ndjson');
  expect(notes).toContain('old are not declared any more');
  expect(notes).toContain('set TRIBUTARY_ISSUERS for the cluster');
  expect(notesAbout(facts())).toEqual([]);
});
