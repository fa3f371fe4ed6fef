import { type Connector, newId } from '@tributary/core';
import type { Agent } from 'undici';
import { type Call, createClientConnector } from '../client-connector.ts';
import { overHttp } from '../http/agent.ts';
import { excerptOf, secretTexts } from '../http/excerpt.ts';
import { exchange, type HttpRequest } from '../http/exchange.ts';
import { mayBlameSome, verdictOfAnswer } from '../http/verdict.ts';
import type { ConnectorContext } from '../kind.ts';
import { oncePer } from '../once-per.ts';
import { type PartResult, sendInParts } from '../parts.ts';
import { testedBy } from '../verdicts.ts';
import { composeMessage, composeTest } from './message.ts';
import { readSettings, type WebhookSettings } from './settings.ts';

const secretsOf = oncePer((settings: WebhookSettings) => [
  ...settings.previous.map(({ secret }) => secret),
  ...secretTexts(settings),
]);

export function createWebhookConnector(context: ConnectorContext): Connector {
  const { clock } = context;

  const send = async (
    agent: Agent,
    settings: WebhookSettings,
    compose: () => HttpRequest,
    { deadline, failed }: Call,
  ): Promise<PartResult> => {
    try {
      deadline.throwIfAborted();
      const { status, retryAfter, start } = await exchange(agent, compose(), deadline);
      const excerpt = excerptOf(start, secretsOf(settings));
      const result = verdictOfAnswer({ status, retryAfter, excerpt }, clock());
      return { result, someToBlame: mayBlameSome(result) };
    } catch (error) {
      return { result: failed(error), someToBlame: false };
    }
  };

  return createClientConnector<WebhookSettings, Agent>(context, {
    readSettings,
    limits: ({ batchSize }) => ({ events: batchSize }),
    ...overHttp(context),

    send: (agent, settings, batch, call) =>
      sendInParts(batch, {
        send: (part) => send(agent, settings, () => composeMessage(settings, part, clock()), call),
        mayHalve: call.mayHalve,
      }),

    async test(agent, settings, call) {
      const compose = () => composeTest(settings, newId(), call.destination, clock());
      const { result } = await send(agent, settings, compose, call);
      return testedBy(result);
    },
  });
}
