import { type Json, type JsonObject, objectIn } from '@tributary/core';
import { segmentEvent } from './connector.ts';
import { hostsInCode } from './definitions.fixture.ts';
import { ANY_HOST, type Definition } from './definitions.ts';
import type { Details } from './details.ts';
import type { PackDefinition } from './pack.ts';
import {
  type DirectRequest,
  eventFor,
  MAPPED_HOST,
  runDirectly,
  sampleSubscriptions,
  settingsFor,
  startDirectly,
  testDirectly,
} from './pack-runs.fixture.ts';

/*
 * The hosts that a definition names: those in its code, and those of the requests that it makes with settings and mappings
 * that can be told apart. A setting that is found in a host stands there as `{setting}`.
 */

/** Texts that stand for the settings: words, whole URLs, and names of hosts. */
const FORMS: readonly ((mark: string) => string)[] = [
  (mark) => mark,
  (mark) => `https://${mark}.test`,
  (mark) => `https://${mark}.test/`,
  (mark) => `${mark}.test`,
];

/** Hosts that no run reaches, as the destination takes them from parts of a key, or from audiences. */
const BY_HAND: Readonly<Record<string, readonly string[]>> = {
  'eagleeye-audiences': ['{connectorUrl}'],
  ortto: ['segment-action-api-*.ortto.app'],
  'ortto-audiences': ['segment-action-api-*.ortto.app'],
  // The URL of a workflow is a field of its mapping, but the key of the API goes there too.
  qualtrics: ['*.qualtrics.com'],
  // The service tells it when somebody connects.
  salesforce: ['{instanceUrl}'],
  trubrics: ['{url}'],
};

/** Hosts in the code that are no receivers: documents, names of XML, images. */
const NOISE =
  /^(?:docs|developers?|help|support|logo|schemas)\.|^www\.(?:w3\.org|m3ter\.com)$|^(?:segment\.com|exacttarget\.com|devrev\.ai|amplitude\.com|mixpanel\.com|apollo\.io)$/;

export async function hostsOf(
  destination: string,
  code: string,
  definition: PackDefinition,
  described: Pick<Definition, 'destination' | 'properties'>,
  details: Details,
): Promise<readonly string[]> {
  const running = startDirectly(destination, definition);
  const names = Object.keys(described.properties);
  const marks = new Map(names.map((name, at) => [name, `mk${at}mk`]));
  const found = new Set<string>();
  let isMapped = false;
  for (const form of FORMS)
    for (const settings of withChoices(described.properties, (name) => form(marks.get(name) ?? '')))
      for (const request of await requestsOf(running, details, settings)) {
        const { hostname } = new URL(request.url);
        if (hostname !== MAPPED_HOST) found.add(patternOf(hostname, marks));
        // A destination that sends its credentials there must not send anywhere.
        else if (form('') === '') isMapped = !holdsMark(request, described.properties, marks);
      }
  const own = [...found].filter(isPattern);
  const inCode = hostsInCode(code).filter(
    (host) => !NOISE.test(host) && !(host.includes('*') && own.some((one) => isLike(host, one))),
  );
  const byHand = BY_HAND[destination] ?? [];
  return [...new Set([...inCode, ...own, ...byHand, ...(isMapped ? [ANY_HOST] : [])])].sort();

  async function requestsOf(started: typeof running, details: Details, settings: JsonObject) {
    const requests: DirectRequest[] = [...(await testDirectly(started, settings))];
    for (const { subscribe, partnerAction, mapping } of sampleSubscriptions(details, true)) {
      const event = eventFor(subscribe);
      if (event === undefined) continue;
      const subscription = { subscribe, partnerAction, mapping };
      const sent = { ...segmentEvent(event), messageId: 'm-1' };
      requests.push(
        ...(await runDirectly(started, subscription, sent, settings, { patienceMs: 500 })).requests,
      );
    }
    return requests;
  }

  function withChoices(properties: Definition['properties'], textOf: (name: string) => string): JsonObject[] {
    const base = settingsFor({ destination, properties } as Definition, textOf);
    const varied = Object.entries(properties).flatMap(([name, schema]) => {
      const { enum: values, type } = objectIn(schema);
      const all: readonly Json[] = Array.isArray(values) ? values : type === 'boolean' ? [true, false] : [];
      return all.map((value) => ({ ...base, [name]: value }));
    });
    return [base, ...varied];
  }
}

/** A host with the settings in place of their marks. */
function patternOf(host: string, marks: ReadonlyMap<string, string>): string {
  return [...marks].reduce(
    (rest, [name, mark]) => rest.replaceAll(new RegExp(`${mark}(?:\\.test\\b)?`, 'g'), `{${name}}`),
    host,
  );
}

/** Not one that a form in the wrong place made, as `https` of `https://https://...`. */
function isPattern(pattern: string): boolean {
  return (
    !/(?:^|[.-])https(?:$|\.)|\}[^.-]|[^.-]\{|(?:^|\.)example(?:\.com)?$|\.test/.test(pattern) &&
    /[.{]/.test(pattern)
  );
}

/** Whether a pattern with `*` is that of a host that was found. */
function isLike(pattern: string, host: string): boolean {
  const [before = '', after = ''] = pattern.split('*');
  return host.startsWith(before) && host.endsWith(after);
}

function holdsMark(
  request: DirectRequest,
  properties: Definition['properties'],
  marks: ReadonlyMap<string, string>,
): boolean {
  const text = JSON.stringify(request);
  return [...marks].some(
    ([name, mark]) =>
      properties[name]?.writeOnly === true &&
      (text.includes(mark) || text.includes(Buffer.from(mark).toString('base64').slice(0, -3))),
  );
}
