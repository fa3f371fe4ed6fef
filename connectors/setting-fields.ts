import type { JsonObject } from '@tributary/core';

/** A host as a setting: a name or an address, never a path of this machine. */
const HOST_PATTERN = '^[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9_])?[.]?$|^[0-9A-Fa-f:.]{2,45}$';

export function hostField(what: string): JsonObject {
  return {
    type: 'string',
    title: 'Host',
    description: `${what} A name or an address; the name must stand for a public address.`,
    examples: ['db.example.com'],
    pattern: HOST_PATTERN,
  };
}

export function portField(usual: number): JsonObject {
  return {
    type: 'integer',
    title: 'Port',
    description: 'Its TCP port.',
    minimum: 1,
    maximum: 65_535,
    default: usual,
  };
}

export const tlsField: JsonObject = {
  type: 'boolean',
  title: 'TLS',
  description: 'Encrypt the connection and check the certificate of the host.',
  default: true,
};

export const caField: JsonObject = {
  type: 'string',
  title: 'Certificate authority',
  description: 'PEM of the authority that signed its certificate, where that is not a public one.',
  maxLength: 20_000,
  pattern: '^-----BEGIN CERTIFICATE-----',
};

export const usernameField: JsonObject = {
  type: 'string',
  title: 'User',
  description: 'The user to sign in as.',
  minLength: 1,
  maxLength: 256,
};

export const passwordField: JsonObject = {
  type: 'string',
  title: 'Password',
  description: 'Its password.',
  writeOnly: true,
  minLength: 1,
  maxLength: 1_024,
};
