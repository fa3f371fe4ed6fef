import { describe, expect, it } from 'vitest';
import { type Operation, PERMISSIONS, permissionOf } from './permissions.ts';

const operations = Object.keys(PERMISSIONS) as Operation[];

describe('the permission table', () => {
  it('lets write keys ingest and do nothing else', () => {
    for (const operation of operations) {
      const { credentials } = permissionOf(operation);
      expect(credentials.includes('write_key'), operation).toBe(operation === 'events.ingest');
      if (operation === 'events.ingest') expect(credentials).toEqual(['write_key']);
    }
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
      if (!changes.test(operation) || operation === 'workspaces.create') continue;
      expect(['editor', 'admin'], operation).toContain(permissionOf(operation).role);
    }
  });

  it('leaves keys to admins', () => {
    for (const operation of operations) {
      if (/^(api|event)-keys\.(create|revoke)$/.test(operation))
        expect(permissionOf(operation).role).toBe('admin');
    }
  });

  it('lets no client key call the platform API', () => {
    for (const operation of operations)
      expect(permissionOf(operation).credentials, operation).not.toContain('client_key');
  });
});
