import type { Connector, Delivery } from '@tributary/core';
import type { Agent } from 'undici';
import { type Call, createClientConnector } from '../client-connector.ts';
import { Stopped } from '../errors.ts';
import { overHttp } from '../http/agent.ts';
import { secretTexts } from '../http/excerpt.ts';
import type { ConnectorContext } from '../kind.ts';
import { oncePer } from '../once-per.ts';
import { testedBy } from '../verdicts.ts';
import type { Chosen } from './chosen.ts';
import type { Definition } from './definition.ts';
import type { PackHost } from './host.ts';
import type { HttpSent } from './messages.ts';
import type { Job } from './process.ts';
import { segmentEvent } from './segment-event.ts';
import { createSegmentReader, type SegmentSettings } from './settings.ts';
import { sendFor } from './transport.ts';
import { type Seen, verdictOfActions } from './verdict.ts';

/** Events one call takes: each is at least one request, and calls are what a place is protected from. */
const LIMITS = { events: 1 };

const secretsOf = oncePer(({ secrets }: SegmentSettings) =>
  secretTexts({ secret: '', headers: secrets.map((text) => ['', text] as const) }),
);

export interface SegmentOptions {
  /** Where a request goes in truth. Default: where the pack sends it. */
  readonly place?: (url: string) => string;
}

export function createSegmentConnector(
  context: ConnectorContext,
  definition: Definition,
  host: PackHost,
  { place = (url) => url }: SegmentOptions = {},
): Connector {
  const { destination } = definition;
  const readSettings = createSegmentReader(definition);
  host.enter();

  const run = async (task: Job['task'], agent: Agent, secrets: readonly string[], call: Call) => {
    const { workspaceId } = call.destination;
    const seen: { -readonly [Name in keyof Seen]: Seen[Name] } = {
      failure: undefined,
      status: undefined,
      retryAfter: undefined,
    };
    // What the pack still asks for when its job is over, or was lost with its process, is called off.
    const over = new AbortController();
    const signal = AbortSignal.any([call.deadline.signal, over.signal]);
    const send = async (sent: HttpSent) => {
      try {
        const answer = await sendFor(agent, { ...sent, url: place(sent.url) }, signal);
        seen.status = answer.status;
        seen.retryAfter = answer.headers.find(([name]) => name === 'retry-after')?.[1];
        return answer;
      } catch (error) {
        seen.failure = call.failed(error);
        throw error;
      }
    };
    try {
      const outcomes = await host.run(workspaceId, { task, send }, signal);
      return verdictOfActions(outcomes, seen, secrets, context.clock());
    } catch (error) {
      return call.failed(error);
    } finally {
      over.abort(new Stopped('the job is over'));
    }
  };

  const connector = createClientConnector<SegmentSettings, Agent>(context, {
    readSettings,
    limits: () => LIMITS,
    ...overHttp(context),

    async send(agent, settings, batch, call) {
      const secrets = secretsOf(settings);
      const tasks = batch.map((delivery) => taskOf(destination, definition, settings, delivery));
      return Promise.all(tasks.map((task) => run(task, agent, secrets, call)));
    },

    async test(agent, settings, call) {
      const secrets = secretsOf(settings);
      return testedBy(await run({ op: 'test', destination, settings: settings.own }, agent, secrets, call));
    },
  });

  let left: Promise<void> | undefined;
  return {
    ...connector,
    close() {
      left ??= connector.close().then(() => host.leave());
      return left;
    },
  };
}

function taskOf(
  destination: Chosen,
  { presets }: Definition,
  { own, presets: chosen, actions }: SegmentSettings,
  { event }: Delivery,
): Job['task'] {
  const names = chosen ?? presets.map(({ name }) => name);
  return {
    op: 'run',
    destination,
    settings: own,
    presets: names,
    subscriptions: actions,
    event: segmentEvent(event),
  };
}
