import { type Connector, type DeliveryResult, newId } from '@tributary/core';
import type { Agent } from 'undici';
import { type Call, createClientConnector } from '../client-connector.ts';
import { overHttp } from '../http/agent.ts';
import { EXCERPT_BYTES, excerptOf, secretTexts } from '../http/excerpt.ts';
import { exchange, type HttpRequest } from '../http/exchange.ts';
import { mayBlameSome, verdictOfAnswer } from '../http/verdict.ts';
import type { ConnectorContext } from '../kind.ts';
import { oncePer } from '../once-per.ts';
import { sendInParts } from '../parts.ts';
import { testedBy } from '../verdicts.ts';
import { authorizationOf, changeNothing, createAll } from './bulk.ts';
import { type ElasticsearchSettings, MAX_BATCH, readSettings } from './settings.ts';
import { type BulkItem, itemsIn, testedByItem, verdictOfItem } from './verdict.ts';

const LIMITS = { events: MAX_BATCH, bytes: 5 * 1_024 * 1_024 };
/** An answer in which every document is refused at length is shorter. */
const ANSWER_BYTES = 64 * 1_024;
const ANSWER_BYTES_AN_ITEM = 8 * 1_024;
const MAX_ANSWER_BYTES = ANSWER_BYTES + MAX_BATCH * ANSWER_BYTES_AN_ITEM;

export function createElasticsearchConnector(context: ConnectorContext): Connector {
  /** The items of the answer, or one verdict for all. */
  const ask = async (
    agent: Agent,
    request: HttpRequest,
    count: number,
    secrets: readonly string[],
    { deadline, failed }: Call,
  ): Promise<readonly BulkItem[] | DeliveryResult> => {
    try {
      deadline.throwIfAborted();
      const { status, retryAfter, start, whole } = await exchange(
        agent,
        request,
        deadline,
        ANSWER_BYTES + count * ANSWER_BYTES_AN_ITEM,
      );
      const excerpt = excerptOf(start.subarray(0, EXCERPT_BYTES), secrets);
      if (status !== 200) return verdictOfAnswer({ status, retryAfter, excerpt }, context.clock());
      const items = whole ? itemsIn(start, count) : undefined;
      return items ?? { outcome: 'retry', reason: 'the answer is not whole', status };
    } catch (error) {
      return failed(error);
    }
  };

  return createClientConnector<ElasticsearchSettings, Agent>(context, {
    readSettings,
    limits: () => LIMITS,
    ...overHttp(context, 2 * MAX_ANSWER_BYTES),

    async send(agent, settings, batch, call) {
      const secrets = secretsOf(settings);
      const byItem = new Map<string, DeliveryResult>();
      const results = await sendInParts(batch, {
        async send(part) {
          const answer = await ask(agent, createAll(settings, part), part.length, secrets, call);
          if (!isItems(answer)) return { result: answer, someToBlame: mayBlameSome(answer) };
          part.forEach(({ id }, index) => {
            byItem.set(id, verdictOfItem(answer[index] ?? NO_ITEM, secrets));
          });
          return { result: { outcome: 'delivered', status: 200 }, someToBlame: false };
        },
        mayHalve: call.mayHalve,
      });
      return batch.map(({ id }, index) => byItem.get(id) ?? results[index] ?? NOT_WHOLE);
    },

    async test(agent, settings, call) {
      const secrets = secretsOf(settings);
      const answer = await ask(agent, changeNothing(settings, newId()), 1, secrets, call);
      return isItems(answer) ? testedByItem(answer[0] ?? NO_ITEM, secrets) : testedBy(answer);
    },
  });
}

const NO_ITEM: BulkItem = { status: 0, type: undefined, reason: undefined };
const NOT_WHOLE: DeliveryResult = { outcome: 'retry', reason: 'the answer is not whole' };

function isItems(answer: readonly BulkItem[] | DeliveryResult): answer is readonly BulkItem[] {
  return Array.isArray(answer);
}

const secretsOf = oncePer((settings: ElasticsearchSettings) => {
  const authorization = authorizationOf(settings);
  const headers = authorization === undefined ? [] : [['authorization', authorization] as const];
  return secretTexts({ secret: settings.password ?? settings.api_key ?? '', headers });
});
