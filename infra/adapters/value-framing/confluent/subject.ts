import { COMPATIBILITY, SchemaRegistry, SchemaType } from '@kafkajs/confluent-schema-registry';
import { InvalidInput, type JsonObject, messageOf, SchemaRefused, Unavailable } from '@tributary/core';

export interface SchemaRegistryAddress {
  /** Where the Confluent API is: `http(s)://host:port[/path]`. */
  readonly url: string;
  readonly username?: string;
  readonly password?: string;
  /** How long to wait for each of its answers. Default 10 s. */
  readonly answerMs?: number;
}

type TypedSchema = { readonly type: SchemaType.JSON; readonly schema: string };
type Middleware = NonNullable<ConstructorParameters<typeof SchemaRegistry>[0]['middlewares']>[number];

const CLIENT_ID = 'tributary';
const ANSWER_MS = 10_000;

/** The client by itself waits for an answer without end. */
const boundedWait =
  (timeout: number): Middleware =>
  () => ({ prepareRequest: async (next) => (await next()).enhance({ timeout }) });

/** Throws `InvalidInput` for an address that is none. */
export function schemaRegistry({ url, username, password, answerMs }: SchemaRegistryAddress): SchemaRegistry {
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    throw new InvalidInput('the schema registry must be at an http or https URL');
  }
  return new SchemaRegistry({
    host: url.replace(/\/+$/, ''),
    clientId: CLIENT_ID,
    retry: { retries: 0 },
    middlewares: [boundedWait(answerMs ?? ANSWER_MS)],
    ...(username === undefined ? {} : { auth: { username, password: password ?? '' } }),
  });
}

/**
 * The id of a schema under its subject, registered if it is not there yet. A new subject gets the compatibility FORWARD;
 * one that has another is left as it is and refuses, as the registry would not check what readers rely on.
 */
export async function registerSchema(
  registry: SchemaRegistry,
  subject: string,
  schema: JsonObject,
): Promise<number> {
  const typed: TypedSchema = { type: SchemaType.JSON, schema: JSON.stringify(schema) };
  const known = await lookUp(registry, subject, typed);
  if (known !== undefined) return known;
  let id: unknown;
  try {
    ({ id } = await registry.register(typed, { subject, compatibility: COMPATIBILITY.FORWARD }));
  } catch (error) {
    // Between another process's registration and its setting of the level, the subject seems to have another level.
    const meanwhile = isRefusal(error) ? await lookUp(registry, subject, typed) : undefined;
    return meanwhile ?? refuse(subject, error);
  }
  return schemaId(subject, id);
}

async function lookUp(
  registry: SchemaRegistry,
  subject: string,
  schema: TypedSchema,
): Promise<number | undefined> {
  let id: unknown;
  try {
    id = await registry.getRegistryIdBySchema(subject, schema);
  } catch (error) {
    // The client's own error, without a status, says that the subject or the schema is not there.
    return statusOf(error) === undefined ? undefined : refuse(subject, error);
  }
  return schemaId(subject, id);
}

/** A page that is no registry may answer as well. */
function schemaId(subject: string, answer: unknown): number {
  if (typeof answer === 'number' && Number.isInteger(answer)) return answer;
  throw new SchemaRefused(subject, 'the answer has no schema id; is this the address of a schema registry?');
}

function refuse(subject: string, error: unknown): never {
  const answer = answerOf(error);
  if (isRefusal(error)) throw new SchemaRefused(subject, answer, { cause: error });
  throw new Unavailable(`the schema registry does not answer: ${answer}`, { cause: error });
}

/** In the words of the registry, which the client puts behind its own name. */
function answerOf(error: unknown): string {
  return messageOf(error).replace(`${CLIENT_ID} - `, '');
}

/** 400 is what the client makes of a request that got no answer; no registry says it of what is sent here. */
const WORTH_REPEATING = new Set([400, 408, 429]);

function isRefusal(error: unknown): boolean {
  const status = statusOf(error);
  return status === undefined || (status < 500 && !WORTH_REPEATING.has(status));
}

/** Absent where the client decided by itself: unknown to the registry, or a level that is not the wanted one. */
function statusOf(error: unknown): number | undefined {
  if (typeof error !== 'object' || error === null || !('status' in error)) return undefined;
  return typeof error.status === 'number' ? error.status : undefined;
}
