import { describe, expect, it } from 'vitest';
import { type Operation, PERMISSIONS, permissionOf } from './permissions.ts';
import { CLIENT_KEY_SCOPES } from './roles.ts';

const operations = Object.keys(PERMISSIONS) as Operation[];
/** Creates something that the caller owns. */
const FOR_ANYBODY: readonly Operation[] = ['organizations.create', 'workspaces.create'];

describe('the permission table', () => {
  it('lets write keys ingest, load what their SDK loads first, and do nothing else', () => {
    for (const operation of operations) {
      const { credentials } = permissionOf(operation);
      const isForProducers = operation === 'events.ingest' || operation === 'sdk-settings.read';
      expect(credentials.includes('write_key'), operation).toBe(isForProducers);
      if (isForProducers) expect(credentials).toEqual(['write_key']);
    }
  });

  it('has one operation that is open to all, and it reads nothing', () => {
    const ofEverybody = operations.filter((operation) => permissionOf(operation).public);
    expect(ofEverybody).toEqual(['sdk-measurements.take']);
  });

  it('asks for a role wherever an API key may call', () => {
    for (const operation of operations) {
      const { credentials, role } = permissionOf(operation);
      if (credentials.includes('api_key')) expect(role, operation).toBeDefined();
    }
  });

  it('asks for more than a viewer wherever something changes', () => {
    const changes = /\.(create|update|delete|archive|revoke|redrive)$/;
    for (const operation of operations) {
      if (!changes.test(operation) || FOR_ANYBODY.includes(operation)) continue;
      const { role, organizationRole, scope } = permissionOf(operation);
      if (scope !== undefined) continue;
      if (organizationRole === undefined) expect(['editor', 'admin'], operation).toContain(role);
      else expect(organizationRole, operation).toBe('admin');
    }
  });

  it('leaves keys, members and the workspace itself to admins', () => {
    const governing = operations.filter((operation) =>
      /^((api|event)-keys|workspace-members|workspaces)\.(create|revoke|update|delete|archive)$/.test(
        operation,
      ),
    );
    expect(governing.length).toBeGreaterThan(8);
    for (const operation of governing) {
      if (!FOR_ANYBODY.includes(operation)) expect(permissionOf(operation).role, operation).toBe('admin');
    }
  });

  it('leaves organizations to people', () => {
    for (const operation of operations) {
      const { credentials, organizationRole, role } = permissionOf(operation);
      if (organizationRole === undefined) continue;
      expect(credentials, operation).toEqual(['id_token']);
      expect(role, operation).toBeUndefined();
    }
  });

  it('lets people do something to themselves only where they may leave', () => {
    const own = operations.filter((operation) => permissionOf(operation).self);
    expect(own.toSorted()).toEqual(['organization-members.delete', 'workspace-members.delete']);
  });

  it('leaves of an archived workspace the operations that read and archive it', () => {
    const open = operations.filter((operation) => permissionOf(operation).archived);
    expect(open.toSorted()).toEqual(['audit-log.list', 'workspaces.archive', 'workspaces.read']);
  });

  it('lets client keys call the profile API and nothing else', () => {
    for (const operation of operations) {
      const { credentials, scope, role, organizationRole } = permissionOf(operation);
      expect(credentials.includes('client_key'), operation).toBe(operation.startsWith('profiles.'));
      expect(scope !== undefined, operation).toBe(operation.startsWith('profiles.'));
      if (scope !== undefined) expect([role, organizationRole], operation).toEqual([undefined, undefined]);
    }
  });

  it('has an operation of the profile API for every scope of client keys', () => {
    const scopes = operations.flatMap((operation) => permissionOf(operation).scope ?? []);
    expect([...new Set(scopes)].toSorted()).toEqual(CLIENT_KEY_SCOPES.toSorted());
  });
});
