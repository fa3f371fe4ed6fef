import type { Logger } from '@tributary/core';
import { type DestinationStream, pino } from 'pino';
import { logContext } from '../../adapters/tracing/log-context.ts';

/** JSON logs on standard error, as standard output is for commands; one line per cause and minute. */
export function createLogger(
  level: string,
  bindings: Readonly<Record<string, string>>,
  stream?: DestinationStream,
): Logger {
  const logger = pino(
    {
      level,
      base: bindings,
      timestamp: pino.stdTimeFunctions.isoTime,
      messageKey: 'message',
      // Empty while tracing is off.
      mixin: () => ({ ...logContext.getStore() }),
    },
    stream ?? pino.destination({ dest: 2, sync: true }),
  );
  return oncePerCause(logger);
}

const WINDOW_MS = 60_000;
/** Distinct messages and stages that a summary names. */
const MAX_NAMED = 20;

/** Engines and stores, as named in errors and messages. All lines about one of them have the same cause. */
const ENGINE = /Kafka|Redis|Elasticsearch|schema registry|\bdatabase\b|\bcatalog\b/;

/** As `untilAvailable` writes it. */
const STARTING = /: not possible yet; trying again$/;

/** Fields that do not distinguish causes, but where one was met. */
const LOCATION_FIELDS = new Set([
  'stage',
  'group',
  'topic',
  'partition',
  'position',
  'repetition',
  'entries',
  'part',
  'store',
  'request_id',
  'operation',
]);

interface Incident {
  readonly cause: string;
  readonly messages: Map<string, number>;
  readonly stages: Set<string>;
  repeated: number;
}

/**
 * A logger with one line per cause and minute. The first warning of a cause is logged at once. Later ones are counted, and
 * once a minute a summary states their number, messages and stages. At level debug each of them is logged as well.
 *
 * The cause of a warning is the engine that it names, else the text of its error together with the message. Warnings
 * without an error and all other levels are logged as they come, except that an INFO with the same fields is logged once a
 * minute, e.g. when each connection reports that its engine answers again.
 */
export function oncePerCause(logger: Logger): Logger {
  const incidents = new Map<string, Incident>();
  const logged = new Set<string>();

  const summarize = (key: string, incident: Incident) => {
    const { cause, repeated, messages, stages } = incident;
    incidents.delete(key);
    if (repeated === 0) return;
    logger.warn(
      {
        cause,
        repeated,
        messages: Object.fromEntries(messages),
        ...(stages.size === 0 ? {} : { stages: [...stages] }),
      },
      `${cause}: the same cause again within ${WINDOW_MS / 1_000} s`,
    );
    begin(key, cause);
  };
  const begin = (key: string, cause: string) => {
    const incident: Incident = { cause, messages: new Map(), stages: new Set(), repeated: 0 };
    incidents.set(key, incident);
    setTimeout(() => summarize(key, incident), WINDOW_MS).unref();
  };

  return {
    debug: (fields, message) => logger.debug(fields, message),
    error: (fields, message) => logger.error(fields, message),
    info(fields, message) {
      const key = `${message} ${JSON.stringify(fields)}`;
      if (logged.has(key)) return logger.debug(fields, message);
      logged.add(key);
      setTimeout(() => logged.delete(key), WINDOW_MS).unref();
      logger.info(fields, message);
    },
    warn(fields, message) {
      const found = causeOf(fields as Readonly<Record<string, unknown>>, message);
      if (found === undefined) return logger.warn(fields, message);
      const incident = incidents.get(found.key);
      if (incident === undefined) {
        begin(found.key, found.cause);
        return logger.warn(fields, message);
      }
      incident.repeated++;
      if (incident.messages.has(message) || incident.messages.size < MAX_NAMED)
        incident.messages.set(message, (incident.messages.get(message) ?? 0) + 1);
      if ('stage' in fields && typeof fields.stage === 'string' && incident.stages.size < MAX_NAMED)
        incident.stages.add(fields.stage);
      logger.debug(fields, message);
    },
  };
}

/** Undefined for a warning that names no error. */
function causeOf(
  fields: Readonly<Record<string, unknown>>,
  message: string,
): { readonly key: string; readonly cause: string } | undefined {
  const { error, ...others } = fields;
  if (typeof error !== 'string') return undefined;
  const [engine] = ENGINE.exec(error) ?? ENGINE.exec(message) ?? [];
  // A start that waits for an engine is a cause of its own.
  if (engine !== undefined && STARTING.test(message)) return { key: `${engine} ${message}`, cause: engine };
  if (engine !== undefined) return { key: engine, cause: engine };
  // Different destinations or programs are different causes.
  const about = Object.entries(others).filter(([name]) => !LOCATION_FIELDS.has(name));
  const text = error.replace(/\d+/g, '#');
  return { key: `${message} ${text} ${JSON.stringify(about)}`, cause: error };
}
