import { notifications } from '@mantine/notifications';

/** Shows a notice of a completed change. Failures are shown where they happened instead. */
export function notifyDone(message: string): void {
  notifications.show({ color: 'teal', message });
}
