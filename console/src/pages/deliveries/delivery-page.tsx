import { Page } from '../../shared/page.tsx';

export function DeliveryPage() {
  return <Page title="Delivery">{null}</Page>;
}
